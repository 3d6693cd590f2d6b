/** A piece of a function's body, and its place. */
export interface Statement {
  readonly from: number
  readonly to: number
  readonly text: string
}

/** Comments, strings and quoted names are one token each, so that nothing in them counts as a keyword. */
const TOKEN =
  /--[^\n]*|\/\*[\s\S]*?\*\/|'(?:[^']|'')*'|"(?:[^"]|"")*"|\$(\w*)\$[\s\S]*?\$\1\$|[A-Za-z_]\w*|\s+|[\s\S]/g
const IGNORED = /^(--|\/\*|\s)/
/** Would need its own rule; the protocol does without. */
const UNKNOWN = /^(BEGIN|CASE|FOREACH|LOOP|WHILE|EXCEPTION|<)$/i

interface Token {
  readonly text: string
  readonly at: number
  /** How many parentheses are open before the token, or after it if it is a closing one. */
  readonly depth: number
}

/**
 * The statements of a PL/pgSQL body. IF … END IF is not a statement, but those in its branches are. FOR … END LOOP is
 * one: its query has one snapshot, and what is done with each row reads no table.
 */
export function statementsOf(body: string): Statement[] {
  const tokens = tokensOf(body)
  const statements: Statement[] = []
  let place = tokens.findIndex(({ text }) => is(text, 'BEGIN')) + 1
  const skipTo = (end: string) => {
    const { depth } = tokens[place]!
    while (!(is(tokens[place]!.text, end) && tokens[place]!.depth === depth)) place += 1
    place += 1
    return tokens[place - 1]!
  }
  const skipToEndOfLoop = () => {
    do skipTo('END')
    while (!is(tokens[place]!.text, 'LOOP'))
  }
  for (;;) {
    const { text, at } = tokens[place]!
    if (UNKNOWN.test(text)) throw new Error(`can't split what begins with ${text}`)
    if (is(text, 'IF') || is(text, 'ELSIF')) skipTo('THEN')
    else if (is(text, 'ELSE')) place += 1
    else if (is(text, 'END')) {
      if (!is(tokens[place + 1]?.text ?? '', 'IF')) return statements
      skipTo(';')
    } else {
      if (is(text, 'FOR')) skipToEndOfLoop()
      const to = skipTo(';').at + 1
      statements.push({ from: at, to, text: body.slice(at, to) })
    }
  }
}

/** The place, in a statement that locks rows, at which another condition on the rows can be added. */
export function endOfConditions(text: string): number | undefined {
  const tokens = tokensOf(text)
  const words = tokens.map((token) => token.text.toUpperCase())
  const lock = words.findIndex((_, i) => /^FOR( NO KEY)? UPDATE\b/.test(words.slice(i, i + 4).join(' ')))
  if (lock < 0) return undefined
  const { depth } = tokens[lock]!
  let start = lock
  while (start > 0 && tokens[start - 1]!.depth >= depth) start -= 1
  const level = tokens.slice(start, lock + 1).filter((token) => token.depth === depth)
  return level.find((token) => is(token.text, 'ORDER') || is(token.text, 'FOR'))!.at
}

function tokensOf(text: string): Token[] {
  let depth = 0
  const tokens: Token[] = []
  for (const match of text.matchAll(TOKEN)) {
    if (IGNORED.test(match[0])) continue
    if (match[0] === ')') depth -= 1
    tokens.push({ text: match[0], at: match.index, depth })
    if (match[0] === '(') depth += 1
  }
  return tokens
}

function is(text: string, keyword: string): boolean {
  return text.toUpperCase() === keyword
}
