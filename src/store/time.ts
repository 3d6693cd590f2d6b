/** Rows whose times are numbers, since applications set parsers and formats of their own for times. */
export type InMs<Row, Times extends keyof Row> = Omit<Row, Times> & {
  [Time in Times]: null extends Row[Time] ? number | null : number
}

/** A time in ms since 1970, rounded down. */
export function msText(time: string): string {
  return `floor(extract(epoch FROM ${time}) * 1000)::float8`
}

export function dateOrNull(ms: number | null): Date | null {
  return ms === null ? null : new Date(ms)
}
