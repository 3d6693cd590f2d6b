import { Instruments } from '../src/instruments.ts'
const logger = console as any
const time = async (name: string, n: number, f: () => any) => { await f(); for (let r=0;r<2;r++){ const c0 = process.cpuUsage(); for (let i=0;i<n;i++) { const x=f(); if (x) await x } const c = process.cpuUsage(c0); if(r) console.log(name, ((c.user+c.system)/n).toFixed(3)) } }
await time('performance.now', 1e6, () => { performance.now(); return undefined })
await time('new Date', 1e6, () => { new Date(); return undefined })
await time('process.hrtime', 1e6, () => { process.hrtime(); return undefined })
const ins = new Instruments([{ perform: () => () => {} }], logger)
const work = async () => {}
await time('watch', 3e5, () => ins.watch('perform', {} as any, work as any, () => ({}) as any))
const none = new Instruments([], logger)
await time('watch none', 3e5, () => none.watch('perform', {} as any, work as any, () => ({}) as any))
await time('await then', 3e5, () => work().then(() => {}, () => {}))
const round = { id: 'a', fence: 1n, retryCount: 0, crashes: 0, payloads: 1 }
const batch = () => ({ processId: 1, queue: 'updates', shard: 1, slot: 1, rounds: [{ ...round, performIn: new Date(), waited: 12.3, headers: undefined }] })
await time('batch', 3e5, () => { batch(); return undefined })
await time('watch batch', 3e5, () => ins.watch('perform', batch() as any, work as any, () => ({}) as any))
await time('tell', 3e5, () => { ins.tell('complete', { processId: 1, queue: 'updates', shard: 1, slot: 1, rounds: [round], duration: 5 } as any); return undefined })
await time('watch batch tell', 3e5, async () => { await ins.watch('perform', batch() as any, work as any, () => ({}) as any);  ins.tell('complete', { processId: 1, queue: 'updates', shard: 1, slot: 1, rounds: [round], duration: 5 } as any) })
