import type { ListView } from './list-view.ts'

interface FilterFormProps {
  readonly path: string
  readonly view: ListView
  /** What its times are: when a job is due, or when a payload died. */
  readonly times: 'due' | 'died'
  readonly retries: boolean
}

/** The filter is in the address, so that a view can be shared. */
export function FilterForm({ path, view, times, retries }: FilterFormProps) {
  const { id, tenant, from, to, failures } = view.parameters
  return (
    <search>
      <form class="filters" method="get" action={path}>
        <label>
          id, or the start of it with *
          <input name="id" value={id} autocomplete="off" spellcheck={false} />
        </label>
        <label>
          tenant
          <input name="tenant" value={tenant} autocomplete="off" spellcheck={false} />
        </label>
        <label>
          {times} from, UTC
          <input name="from" type="datetime-local" step="1" value={from} />
        </label>
        <label>
          {times} to, UTC
          <input name="to" type="datetime-local" step="1" value={to} />
        </label>
        {retries && (
          <label>
            failures from
            <input name="failures" type="number" min="0" value={failures} />
          </label>
        )}
        {view.parameters.sort && <input type="hidden" name="sort" value={view.parameters.sort} />}
        {view.parameters.direction && (
          <input type="hidden" name="direction" value={view.parameters.direction} />
        )}
        <button type="submit">Filter</button>
        {view.isFiltered && <a href={path}>Clear</a>}
      </form>
    </search>
  )
}
