/** A change of an order in the outside system. A higher version is newer, whenever it arrives. */
export interface Update {
  readonly order: string
  readonly version: number
}

/** One transaction of a producer. Some are rolled back on purpose, and must leave no trace. */
export interface Delivery {
  readonly updates: readonly Update[]
  readonly rollBack: boolean
}

const UPDATES_PER_ORDER = 50
const FEWEST_ORDERS = 10
const LARGEST_DELIVERY = 3
/** One in this many updates is rolled back, in addition to those sent. */
const ROLLBACK_EVERY = 21
/** An update arrives late by roughly up to this many versions of its order. */
const DISORDER = 4

export function orderCount(events: number): number {
  return Math.max(FEWEST_ORDERS, Math.round(events / UPDATES_PER_ORDER))
}

/** Exactly `events` updates to commit, plus one per 20 of them to roll back, in order of arrival. */
export function planFeed(events: number): Delivery[] {
  const total = events + Math.floor(events / (ROLLBACK_EVERY - 1))
  const updates = shuffled(draw(total, orderCount(events)), orderCount(events) * DISORDER)
  return [...deliveries(updates)]
}

/** In the order in which the outside system makes them. Some orders are hotter than others, none is cold. */
function draw(total: number, orders: number): Update[] {
  const versions = new Map<string, number>()
  return Array.from({ length: total }, () => {
    const order = `order-${Math.floor(orders * Math.random() ** 2)}`
    const version = (versions.get(order) ?? 0) + 1
    versions.set(order, version)
    return { order, version }
  })
}

/** Each update is delayed by up to `window` places. */
function shuffled(updates: readonly Update[], window: number): Update[] {
  return updates
    .map((update, place) => ({ update, place: place + Math.random() * window }))
    .sort((one, other) => one.place - other.place)
    .map(({ update }) => update)
}

function* deliveries(updates: readonly Update[]): Iterable<Delivery> {
  const open = new Map<boolean, Update[]>()
  for (const [index, update] of updates.entries()) {
    const rollBack = index % ROLLBACK_EVERY === ROLLBACK_EVERY - 1
    const delivery = [...(open.get(rollBack) ?? []), update]
    open.set(rollBack, delivery)
    if (Math.random() * LARGEST_DELIVERY > delivery.length) continue
    open.delete(rollBack)
    yield { updates: delivery, rollBack }
  }
  for (const [rollBack, rest] of open) yield { updates: rest, rollBack }
}
