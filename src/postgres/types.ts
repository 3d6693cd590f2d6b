import pg from 'pg'

const { BOOL, FLOAT4, FLOAT8, INT2, INT4, INT8, JSON: JSON_TEXT, JSONB } = pg.types.builtins

/** bigint as well, since counts, fences and microseconds stay below 2^53. */
const PARSERS = new Map<number, (text: string) => unknown>([
  [BOOL, (text) => text === 't'],
  ...[INT2, INT4, INT8, FLOAT4, FLOAT8].map((oid) => [oid, Number] as const),
  ...[JSON_TEXT, JSONB].map((oid) => [oid, (text: string) => JSON.parse(text)] as const),
])

/** How our own statements read what we compute with, whatever parsers the application has set for the driver. */
export const TYPES = {
  getTypeParser: (oid: number, format: 'text') => PARSERS.get(oid) ?? pg.types.getTypeParser(oid, format),
} as pg.CustomTypesConfig
