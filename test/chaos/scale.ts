/** The size of faults: a test of one fault should be quick. */
export interface Scale {
  /** Processes that join and leave, and how many of them at a time. */
  readonly crowd: number
  readonly crowdAtOnce: number
  /** ms that an open transaction holds rows. */
  readonly hold: number
  /** Jobs that a tenant pushes at once. */
  readonly flood: number
}

export const SMALL: Scale = { crowd: 6, crowdAtOnce: 3, hold: 3_000, flood: 200 }
export const LARGE: Scale = { crowd: 50, crowdAtOnce: 10, hold: 30_000, flood: 1_500 }
