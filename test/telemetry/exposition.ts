import parse from 'parse-prometheus-text-format'

type Labels = Readonly<Record<string, string>>

/** What a scrape answers, read by a parser that is none of ours. */
export class Exposition {
  readonly text: string
  /** Of all metrics, whether they have values or not. */
  readonly names: readonly string[]
  readonly #samples: ReturnType<typeof parse>

  constructor(text: string) {
    this.text = text
    this.names = parse(text).map(({ name }) => name)
    // Of a histogram that has labels, the parser keeps only the first. Without their types, it reads all lines alike.
    this.#samples = parse(text.replace(/^# TYPE .*$/gm, ''))
  }

  /** The value of a counter, a gauge, or a line of a histogram; undefined if there is none for these labels. */
  value(name: string, labels: Labels = {}): number | undefined {
    const found = this.samples(name).find(
      (one) =>
        Object.keys(one.labels).length === Object.keys(labels).length &&
        Object.entries(labels).every(([label, value]) => one.labels[label] === value),
    )
    return found?.value
  }

  samples(name: string): { labels: Labels; value: number }[] {
    const all = this.#samples.find((one) => one.name === name)?.metrics ?? []
    return all.map(({ labels = {}, value }) => ({ labels, value: Number(value) }))
  }
}
