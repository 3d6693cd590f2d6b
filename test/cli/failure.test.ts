import { expect, it } from 'vitest'
import { keepSecret, shown } from '../../src/cli/failure.ts'

it('a short password is masked in a URL, and leaves words alone', () => {
  keepSecret('postgres://anna:a@host/database')
  keepSecret('ab')
  expect(shown('a database, about postgres://anna:a@elsewhere/database or password=a')).toBe(
    'a database, about postgres://anna:***@elsewhere/database or password=***',
  )
})

it('a longer one is masked wherever it stands', () => {
  keepSecret('postgres://anna:hoarfrost@host/database')
  expect(shown('no host hoarfrost; postgres://anna:hoarfrost@host/database')).toBe('no host ***; ***')
})
