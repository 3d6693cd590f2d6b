import { defineQueue } from 'pg-lockstep'

export const orders = defineQueue<{ status: string }>('orders-by-hand', {
  perform(batch) {
    for (const [id, events] of batch) console.log(id, events.map(({ status }) => status).join(' → '))
  },
})
