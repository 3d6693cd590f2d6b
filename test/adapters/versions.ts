import { readFileSync } from 'node:fs'
import type { AnyLibrary } from './adapter.ts'

/** What its transactions are tested for; a column of the docs' table each. */
export const USES = ['as `tx`', 'in handlers'] as const

/** Of a library's tests. */
export function titleOf({ name }: Pick<AnyLibrary, 'name'>, use: (typeof USES)[number]): string {
  return `${name}: its transactions ${use}`
}

/** Such as `knex 3.1.0, pg 8.20.0`: what is installed. */
export function versionsOf({ packages }: Pick<AnyLibrary, 'packages'>): string {
  return packages.map(versionOf).join(', ')
}

/** A folder may have another name than its package, if several versions are installed. */
function versionOf(folder: string): string {
  const { name, version } = JSON.parse(readFileSync(`node_modules/${folder}/package.json`, 'utf8'))
  return `${name} ${version}`
}
