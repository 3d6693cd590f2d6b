/** What an action is done to, as the body of a call. */
export interface Choice {
  readonly body: object
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
  if (allOf(list)?.checked) return { body: JSON.parse(matching!), size: undefined, countPath: count }
  const selected = boxesOf(list).filter(({ checked }) => checked)
  if (selected.length === 0) return undefined
  return { body: bodyOf(selected), size: selected.length, countPath: undefined }
}

/** A job is named by its id, and a dead payload by a key beside that. */
function bodyOf(selected: readonly HTMLInputElement[]): object {
  const ids = [...new Set(selected.map(({ value }) => value))]
  const keys = selected.flatMap(({ dataset }) => dataset.key ?? [])
  return keys.length > 0 ? { filter: { ids, keys } } : { ids }
}

function allOf(list: HTMLElement): HTMLInputElement | null {
  return list.querySelector<HTMLInputElement>('[data-all]')
}

function boxesOf(list: HTMLElement): HTMLInputElement[] {
  return [...list.querySelectorAll<HTMLInputElement>('input[data-row]')]
}
