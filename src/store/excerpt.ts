import { type RawBuilder, sql } from 'kysely'

/** A payload as its JSON text, in which every number has all its digits. */
export interface PayloadText {
  /** The text, or its beginning. */
  readonly text: string
  /** Whether it is only the beginning. */
  readonly cut: boolean
}

export interface JobPayloadText extends PayloadText {
  readonly score: number
  readonly headers: Readonly<Record<string, unknown>> | null
  /** In ms since 1970; null: never. */
  readonly expiresIn: number | null
}

/** The payloads of a job with the lowest scores, and how many it has. */
export interface JobPayloadTexts {
  readonly count: number
  readonly first: readonly JobPayloadText[]
}

/** `length`: the most characters of a text; undefined: all of them. */
export function excerptOf(payload: RawBuilder<unknown>, length?: number): RawBuilder<PayloadText> {
  return sql`(SELECT jsonb_build_object(${textAndCut(length)})
    FROM (SELECT ${payload}::text AS text) t)`
}

/** `most`: the most payloads; what is left is only counted. */
export function excerptsOf(
  payloads: RawBuilder<unknown>,
  most: number,
  length?: number,
): RawBuilder<JobPayloadTexts> {
  return sql`(SELECT jsonb_build_object('count', jsonb_array_length(a.all), 'first', (
      SELECT coalesce(jsonb_agg(jsonb_build_object(${textAndCut(length)},
        'score', p.value->'score', 'headers', p.value->'headers', 'expiresIn', p.value->'expiresIn') ORDER BY p.ordinality), '[]')
      FROM jsonb_array_elements(a.all) WITH ORDINALITY p
      CROSS JOIN LATERAL (SELECT (p.value->'payload')::text AS text) t
      WHERE p.ordinality <= ${most}::bigint))
    FROM (SELECT coalesce(${payloads}, '[]') AS all OFFSET 0) a)`
}

function textAndCut(length: number | undefined): RawBuilder<unknown> {
  if (length === undefined) return sql`'text', t.text, 'cut', false`
  return sql`'text', left(t.text, ${length}::integer), 'cut', length(t.text) > ${length}::integer`
}
