import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { hashOfDefinitions } from '../../src/postgres/definitions.ts'

/** `npm run serial`: gives changed definitions a new number, and stores their hash. */
const FILE = fileURLToPath(new URL('../../src/postgres/serial.ts', import.meta.url))
const SERIAL = /(?<=^export const SERIAL = )\d+/m
const HASH = /(?<=^export const HASH = ')\w*/m

const text = readFileSync(FILE, 'utf8')
const hash = await hashOfDefinitions()
const serial = Number(SERIAL.exec(text)![0])
if (HASH.exec(text)![0] === hash) console.log(`nothing has changed: the serial is ${serial}`)
else {
  writeFileSync(FILE, text.replace(SERIAL, String(serial + 1)).replace(HASH, hash))
  console.log(`the serial is ${serial + 1} now`)
}
