import type { ListView } from './list-view.ts'
import { withQuery } from './paths.ts'

/** Back to the first page, and on to the next. A page begins where another ended, so millions of rows are no slower. */
export function Pager({ path, view, next }: { path: string; view: ListView; next: string | undefined }) {
  if (view.after === undefined && next === undefined) return null
  const { parameters } = view
  return (
    <nav class="pager" aria-label="Result pages">
      {view.after !== undefined ? (
        <a class="button" href={withQuery(path, { ...parameters, after: undefined })}>
          First page
        </a>
      ) : (
        <span />
      )}
      {next !== undefined && (
        <a class="button" rel="next" href={withQuery(path, { ...parameters, after: next })}>
          Next page
        </a>
      )}
    </nav>
  )
}
