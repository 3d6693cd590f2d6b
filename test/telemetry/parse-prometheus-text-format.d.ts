declare module 'parse-prometheus-text-format' {
  export default function parse(text: string): {
    readonly name: string
    readonly metrics: readonly {
      readonly labels?: Readonly<Record<string, string>>
      readonly value?: string
    }[]
  }[]
}
