import { count, post } from './api.ts'
import { Dialog } from './dialog.ts'
import { refreshNow } from './refresh.ts'
import { type Choice, choiceOf } from './selection.ts'

/** Makes the buttons call the API. */
export function listen(): void {
  const dialog = new Dialog()
  document.addEventListener('click', (event) => {
    const button = (event.target as Element).closest<HTMLButtonElement>(
      'button[data-act], button[data-choice]',
    )
    if (!button) return
    const work = button.dataset.act === undefined ? actOnChoice(button, dialog) : act(button, dialog)
    finish(work, dialog)
  })
  document.addEventListener('submit', (event) => {
    const form = event.target as HTMLFormElement
    if (form.dataset.form === undefined) return
    event.preventDefault()
    const button = event.submitter as HTMLButtonElement
    button.dataset.act = form.dataset.form
    button.dataset.body = JSON.stringify(Object.fromEntries(numbersOf(form)))
    finish(act(button, dialog), dialog)
    delete button.dataset.act
  })
}

function finish(work: Promise<void>, dialog: Dialog): void {
  work.catch((error: Error) => dialog.end(error.message)).finally(refreshNow)
}

/** All fields of our forms are numbers. */
function numbersOf(form: HTMLFormElement): [string, number][] {
  return [...new FormData(form)].map(([name, value]) => [name, Number(value)])
}

/** One call, which is asked about where the button says so. */
async function act(button: HTMLButtonElement, dialog: Dialog): Promise<void> {
  const { act: path, body, question, effect = '' } = button.dataset
  if (question !== undefined) {
    const yes = button.textContent ?? 'Yes'
    if (!(await dialog.ask({ title: question, effect, yes, destroys: true }))) return
  }
  for await (const { done, total } of post(path!, JSON.parse(body!)))
    if (done !== undefined && total !== undefined && question !== undefined) dialog.progress(done, total)
  if (question !== undefined) await dialog.end('Done.')
}

/** For what is selected, or for all that match. Asks before anything is destroyed, or many are touched. */
async function actOnChoice(button: HTMLButtonElement, dialog: Dialog): Promise<void> {
  const form = button.closest<HTMLElement>('[data-selection]')!
  const choice = choiceOf(form)
  if (!choice) return
  const { choice: path, verb = '', one = '', many = '', effect = '', destroys } = button.dataset
  const { number, text } = await sizeOf(choice)
  const what = `${text} ${number === 1 ? one : many}`
  const isDestroying = destroys !== undefined
  const question = { title: `${verb} ${what}?`, effect, yes: `${verb} ${what}`, destroys: isDestroying }
  if ((isDestroying || number > 1) && !(await dialog.ask(question))) return
  const done = await run(`${form.dataset.selection}/${path}`, choice, number, dialog)
  if (isDestroying || number > 1)
    await dialog.end(`Done: ${done.toLocaleString('en')} ${done === 1 ? one : many}.`)
}

async function sizeOf(choice: Choice): Promise<{ number: number; text: string }> {
  if (choice.size !== undefined) return { number: choice.size, text: choice.size.toLocaleString('en') }
  const { count: number, more } = await count(choice.countPath!)
  return { number, text: `${more ? 'more than ' : ''}${number.toLocaleString('en')}` }
}

/** Whoever closes the dialog stops it; what is done stays done. */
async function run(path: string, choice: Choice, total: number, dialog: Dialog): Promise<number> {
  const watched = !dialog.isClosed
  let done = 0
  for await (const line of post(path, choice.body)) {
    done = line.result?.done ?? line.done ?? done
    if (!watched) continue
    if (dialog.isClosed) break
    dialog.progress(done, Math.max(total, line.total ?? 0))
  }
  return done
}
