/** ms between two looks. */
const EVERY = 2_000

/** Replaces the live parts of the page by newer ones, while somebody looks at it and has nothing selected in them. */
export function refresh(): void {
  if (!document.querySelector('[data-live]')) return
  setInterval(() => {
    if (!document.hidden && !isBusy()) void look()
  }, EVERY)
}

/** After an action, whatever is selected. */
export async function refreshNow(): Promise<void> {
  await look(true)
}

/** Whether something in a live part is checked, opened, focused or marked. */
function isBusy(): boolean {
  const selection = getSelection()
  return [...document.querySelectorAll('[data-live]')].some(
    (part) =>
      part.querySelector('input:checked, details[open]') !== null ||
      (part.contains(document.activeElement) && document.activeElement?.matches('input, select')) ||
      (selection !== null && !selection.isCollapsed && part.contains(selection.anchorNode)),
  )
}

let looking = false

async function look(always = false): Promise<void> {
  if (looking) return
  looking = true
  try {
    const response = await fetch(location.href, { headers: { accept: 'text/html' } })
    if (!response.ok) throw new Error(String(response.status))
    const newer = new DOMParser().parseFromString(await response.text(), 'text/html')
    replace(newer, '[data-clock]')
    if (always || !isBusy()) replace(newer, '[data-live]')
  } catch {
    const clock = document.querySelector('[data-clock]')
    if (clock) clock.textContent = 'no answer: trying again'
  } finally {
    looking = false
  }
}

function replace(newer: Document, what: string): void {
  const [old, fresh] = [document.querySelectorAll(what), newer.querySelectorAll(what)]
  if (old.length !== fresh.length) location.reload()
  else for (const [at, part] of old.entries()) exchange(part, fresh[at]!)
}

/** Keeps the focus on the link or button that has it. */
function exchange(part: Element, newer: Element): void {
  if (part.innerHTML === newer.innerHTML) return
  const focusable = 'a, button, input, summary'
  const at = [...part.querySelectorAll(focusable)].indexOf(document.activeElement as Element)
  part.replaceWith(newer)
  if (at >= 0) newer.querySelectorAll<HTMLElement>(focusable)[at]?.focus()
}
