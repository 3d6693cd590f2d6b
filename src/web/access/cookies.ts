/** All values that a Cookie header has for this name, the one with the longest path first. */
export function cookiesOf(header: string | null | undefined, name: string): string[] {
  const pairs = (header ?? '').split(';').map((pair) => pair.trim())
  return pairs.filter((pair) => pair.startsWith(`${name}=`)).map((pair) => pair.slice(name.length + 1))
}
