import { OptionError } from './errors.ts'
import { MAX_LANE } from './job.ts'
import { rejectUnknownOptions, show, wholeNumber } from './options.ts'

/** Where the jobs of a tenant go that pushes much. */
export interface FairnessRule {
  /** The rule matches the pushes of a tenant above this many. 0 to 1,000,000. */
  readonly over: number
  /** Within how many seconds, up to the window. Default: the window. */
  readonly per?: number
  /** The lane that matching jobs go to, 0 to 32767. */
  readonly lane: number
}

export interface Fairness {
  /** For how many seconds pushes are remembered, up to 31 days. Default 86,400: a day. */
  readonly window?: number
  /** All are looked at for each push, and the last one that matches decides. */
  readonly rules: readonly FairnessRule[]
}

/** With every default filled in. */
export interface CheckedFairness {
  readonly window: number
  readonly rules: readonly Required<FairnessRule>[]
}

const DEFAULT_WINDOW = 86_400
const LONGEST_WINDOW = 31 * 86_400
const MOST_OVER = 1_000_000
const MOST_RULES = 20

/** @throws OptionError for a rule that could not do what it says */
export function checkFairness(fairness: Fairness | undefined, what: string): CheckedFairness | undefined {
  if (fairness === undefined) return undefined
  rejectUnknownOptions(fairness, ['window', 'rules'], what)
  const { window = DEFAULT_WINDOW, rules } = fairness
  wholeNumber(window, 1, LONGEST_WINDOW, `${what}: window`)
  if (!Array.isArray(rules) || rules.length === 0 || rules.length > MOST_RULES)
    throw new OptionError(
      `${what}: rules must be a list of 1 to ${MOST_RULES} rules such as { over: 100, per: 3600, lane: 1 }, not ${Array.isArray(rules) ? `of ${rules.length}` : show(rules)}`,
    )
  return { window, rules: rules.map((rule, index) => checkRule(rule, window, `${what}: rules[${index}]`)) }
}

function checkRule(rule: FairnessRule, window: number, what: string): Required<FairnessRule> {
  rejectUnknownOptions(rule, ['over', 'per', 'lane'], what)
  const { over, per = window, lane } = rule
  wholeNumber(over, 0, MOST_OVER, `${what}.over`)
  if (typeof per !== 'number' || !(per > 0))
    throw new OptionError(`${what}.per must be a number of seconds above 0, not ${show(per)}`)
  if (per > window)
    throw new OptionError(
      `${what}.per must not be above the window of ${window} s, for which pushes are remembered, not ${per}: raise \`window\``,
    )
  return { over, per, lane: wholeNumber(lane, 0, MAX_LANE, `${what}.lane`) }
}
