/** What an action is done to, as bodies of calls. */
export interface Choice {
  readonly bodies: readonly object[]
  /** Undefined: `countPath` of the API tells. */
  readonly size: number | undefined
  readonly countPath: string | undefined
}

/** Says how many rows are selected, and lets one box select all that match the filter. */
export function countSelected(): void {
  for (const list of document.querySelectorAll<HTMLElement>('[data-selection]')) {
    list.querySelector('[data-acts]')?.removeAttribute('hidden')
    list.addEventListener('change', (event) => select(list, event.target as HTMLInputElement))
    // Browsers keep what was checked before the page was loaded again.
    show(list)
  }
}

function select(list: HTMLElement, changed: HTMLInputElement): void {
  const all = allOf(list)
  if (!all) return
  if (changed === all) for (const box of boxesOf(list)) box.checked = all.checked
  else if (!changed.checked) all.checked = false
  show(list)
}

function show(list: HTMLElement): void {
  const selected = boxesOf(list).filter(({ checked }) => checked).length
  const isAll = allOf(list)?.checked === true
  const text = list.querySelector('[data-selected]')
  if (text)
    text.textContent = isAll
      ? 'all that match'
      : selected === 0
        ? 'select all that match'
        : `${selected} selected`
  for (const button of list.querySelectorAll<HTMLButtonElement>('button[data-choice]'))
    button.disabled = !isAll && selected === 0
}

/** Undefined if nothing is selected. */
export function choiceOf(list: HTMLElement): Choice | undefined {
  const { matching, count } = list.dataset
  if (allOf(list)?.checked) return { bodies: [JSON.parse(matching!)], size: undefined, countPath: count }
  const selected = boxesOf(list).filter(({ checked }) => checked)
  if (selected.length === 0) return undefined
  return { bodies: bodiesOf(selected), size: selected.length, countPath: undefined }
}

/** A dead payload is one by its job's id and its digest together, so each id takes a call of its own. */
function bodiesOf(selected: readonly HTMLInputElement[]): object[] {
  const digests = new Map<string, string[]>()
  for (const { value, dataset } of selected)
    if (dataset.digest !== undefined) digests.set(value, [...(digests.get(value) ?? []), dataset.digest])
  if (digests.size === 0) return [{ ids: selected.map(({ value }) => value) }]
  return [...digests].map(([id, all]) => ({ filter: { ids: [id], digests: all } }))
}

function allOf(list: HTMLElement): HTMLInputElement | null {
  return list.querySelector<HTMLInputElement>('[data-all]')
}

function boxesOf(list: HTMLElement): HTMLInputElement[] {
  return [...list.querySelectorAll<HTMLInputElement>('input[data-row]')]
}
