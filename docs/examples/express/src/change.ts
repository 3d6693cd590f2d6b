import type { OrderChange } from './queues.ts'

/** Express answers with its `status`. */
export class BadRequest extends Error {
  readonly status = 400
}

/** @throws BadRequest */
export function readChange(body: unknown): OrderChange & { readonly id: string } {
  const { id, version, status } = (body ?? {}) as Record<string, unknown>
  if (!isShortText(id)) throw new BadRequest('id must be text of 1 to 100 characters')
  if (!isShortText(status)) throw new BadRequest('status must be text of 1 to 100 characters')
  if (!isVersion(version)) throw new BadRequest('version must be a whole number from 1 to 2,147,483,647')
  return { id, version, status }
}

function isShortText(value: unknown): value is string {
  return typeof value === 'string' && value.length >= 1 && value.length <= 100
}

function isVersion(value: unknown): value is number {
  return Number.isInteger(value) && Number(value) >= 1 && Number(value) <= 2_147_483_647
}
