const STRING = /"(?:[^"\\]|\\.)*"?/y

/** JSON text, which may be cut, with a line for each member. Its numbers stay as they are, with all their digits. */
export function indented(json: string): string {
  let text = ''
  let depth = 0
  const line = () => `\n${'  '.repeat(depth)}`
  for (let at = 0; at < json.length; ) {
    const character = json[at]!
    if (character === '"') {
      STRING.lastIndex = at
      const string = STRING.exec(json)?.[0] ?? character
      text += string
      at += string.length
      continue
    }
    at += 1
    if (isEmpty(json, at, character)) {
      text += json.slice(at - 1, at + 1)
      at += 1
    } else if (character === '{' || character === '[') {
      depth += 1
      text += character + line()
    } else if (character === '}' || character === ']') {
      depth -= 1
      text += line() + character
    } else if (character === ',') text += `,${line()}`
    else if (character === ':') text += ': '
    else if (!/\s/.test(character)) text += character
  }
  return text
}

function isEmpty(json: string, at: number, opening: string): boolean {
  return (opening === '{' && json[at] === '}') || (opening === '[' && json[at] === ']')
}
