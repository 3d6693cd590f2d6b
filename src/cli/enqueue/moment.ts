const NUMBER = /^[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?$/i
const MOMENT =
  /^(?<date>\d{4}-\d\d-\d\d)(?:[T ](?<time>\d\d:\d\d(?::\d\d)?)(?:[.,](?<fraction>\d{1,12}))? ?(?<zone>Z|[+-]\d\d(?::?\d\d)?)?)?$/i

/**
 * A number, or a timestamp in ms since 1970. A fraction keeps the microseconds, which a Date would drop.
 * A timestamp without a zone is in UTC. Undefined for anything else, and for a whole number that a double
 * would round.
 */
export function numberOrMoment(value: unknown): number | undefined {
  const number = typeof value === 'string' ? parse(value.trim()) : value
  if (typeof number !== 'number' || !Number.isFinite(number)) return undefined
  return Number.isInteger(number) && !Number.isSafeInteger(number) ? undefined : number
}

function parse(text: string): number | undefined {
  if (NUMBER.test(text)) return Number(text)
  const { date, time = '00:00', fraction = '0', zone = 'Z' } = MOMENT.exec(text)?.groups ?? {}
  if (!date) return undefined
  const clock = time.length === 5 ? `${time}:00` : time
  const seconds = Date.parse(`${date}T${clock}Z`)
  // Date.parse takes February 30 for March 2.
  if (Number.isNaN(seconds) || new Date(seconds).toISOString().slice(0, 19) !== `${date}T${clock}`)
    return undefined
  const offset = offsetOf(zone)
  return offset === undefined ? undefined : seconds - offset + Number(`0.${fraction}`) * 1000
}

function offsetOf(zone: string): number | undefined {
  if (/^z$/i.test(zone)) return 0
  const [hours, minutes] = [Number(zone.slice(1, 3)), Number(zone.slice(3).replace(':', '') || 0)]
  if (hours > 15 || minutes > 59) return undefined
  return (zone.startsWith('-') ? -1 : 1) * (hours * 60 + minutes) * 60_000
}
