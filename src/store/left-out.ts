import type { Round } from './claim.ts'

/** Claimed rounds by what may still be handed over. */
export interface Sorted {
  /** Without the payloads that have expired. */
  readonly fresh: readonly Round[]
  /** Those of which nothing is left: they end as if they had succeeded. */
  readonly expired: readonly Round[]
}

const NONE: readonly Round[] = []

/** `now`: microseconds since 1970 by the server's clock. */
export function sortByExpiry(rounds: readonly Round[], now: number): Sorted {
  if (!rounds.some(({ expiries, expired }) => expiries !== undefined || expired > 0))
    return { fresh: rounds, expired: NONE }
  const left = rounds.map((round) => withoutExpired(round, now))
  return { fresh: left.filter((round) => !hasExpired(round)), expired: left.filter(hasExpired) }
}

/** Whether a payload of a round has expired since it was sorted out. */
export function anyExpired(rounds: readonly Round[], now: number): boolean {
  return rounds.some(({ expiries }) => expiries?.some((expiry) => expiry !== null && expiry <= now))
}

/** Whether all that a round had taken has expired. A handler may have changed its list of payloads, but not the scores. */
export function hasExpired({ scores, expired }: Round): boolean {
  return expired > 0 && scores.length === 0
}

/** `cut` stays: the completion goes by what the claim took. */
function withoutExpired(round: Round, now: number): Round {
  const { expiries } = round
  if (!expiries || !anyExpired([round], now)) return round
  const left = expiries.flatMap((expiry, index) => (expiry === null || expiry > now ? [index] : []))
  const of = <T>(all: readonly T[]) => left.map((index) => all[index]!)
  return {
    ...round,
    payloads: of(round.payloads),
    scores: of(round.scores),
    seqs: round.seqs && of(round.seqs),
    headers: round.headers && of(round.headers),
    expiries: of(expiries),
    expired: round.expired + expiries.length - left.length,
  }
}
