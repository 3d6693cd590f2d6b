/** What the dialog asks. */
export interface Question {
  readonly title: string
  readonly effect: string
  /** What the button says that does it. */
  readonly yes: string
  readonly destroys: boolean
}

/** The dialog of the page, which asks, and then shows how far it is. */
export class Dialog {
  readonly #dialog = part<HTMLDialogElement>('[data-dialog]')
  readonly #yes = part<HTMLButtonElement>('[data-yes]')
  readonly #no = part<HTMLButtonElement>('[data-no]')
  readonly #bar = part<HTMLProgressElement>('[data-bar]')
  readonly #report = part('[data-report]')

  /** Whether the answer is yes. Then the dialog stays open. */
  async ask({ title, effect, yes, destroys }: Question): Promise<boolean> {
    part('[data-asked]').textContent = title
    part('[data-dialog] [data-effect]').textContent = effect
    this.#yes.textContent = yes
    this.#yes.className = destroys ? 'danger' : 'main'
    this.#yes.hidden = false
    this.#no.textContent = 'Cancel'
    this.#bar.hidden = true
    this.#report.textContent = ''
    this.#dialog.showModal()
    // Enter must not destroy anything.
    if (destroys) this.#no.focus()
    return new Promise((resolve) => {
      this.#yes.onclick = () => resolve(true)
      this.#no.onclick = () => this.#dialog.close()
      this.#dialog.onclose = () => resolve(false)
    })
  }

  progress(done: number, total: number): void {
    this.#yes.hidden = true
    this.#no.textContent = 'Stop'
    this.#bar.hidden = false
    this.#bar.max = Math.max(1, total)
    this.#bar.value = done
    this.#report.textContent = `${done.toLocaleString('en')} of ${total.toLocaleString('en')}`
  }

  /** Says how it ended, and resolves when the dialog is closed. */
  async end(report: string): Promise<void> {
    if (!this.#dialog.open) this.#dialog.showModal()
    this.#yes.hidden = true
    this.#no.textContent = 'Close'
    this.#report.textContent = report
    await new Promise<void>((resolve) => {
      this.#dialog.onclose = () => resolve()
    })
  }

  /** Whether somebody has closed it meanwhile. */
  get isClosed(): boolean {
    return !this.#dialog.open
  }
}

function part<T extends HTMLElement = HTMLElement>(selector: string): T {
  return document.querySelector<T>(selector)!
}
