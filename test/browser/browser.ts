import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import axe from 'axe-core'
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core'
import { afterAll, beforeAll, expect, inject } from 'vitest'

type Main = typeof import('../../src/index.ts')
type Web = typeof import('../../src/web/index.ts')

/** The package as it is built: from source, its scripts for browsers are missing. */
export async function builtModules(): Promise<Main & Web> {
  const load = (path: string) =>
    import(/* @vite-ignore */ pathToFileURL(join(inject('builtPackage'), 'dist/src', path)).href)
  return { ...(await load('index.js')), ...(await load('web/index.js')) }
}

/** How a visitor looks at a page. */
export interface Look {
  readonly width: 1280 | 360
  readonly colorScheme: 'light' | 'dark'
}

export const LOOKS: readonly Look[] = ([1280, 360] as const).flatMap((width) =>
  (['light', 'dark'] as const).map((colorScheme) => ({ width, colorScheme })),
)

/** A folder for screenshots of all pages; undefined: none are taken. */
const SCREENSHOTS = process.env.LOCKSTEP_SCREENSHOTS

let browser: Browser

/** A real browser for the tests of a file. */
export function useBrowser(): { open(url: string, look?: Look): Promise<Visitor> } {
  const contexts: BrowserContext[] = []
  beforeAll(async () => {
    // Outside of the cloud that it is made for, it brings its libraries only if it's told so.
    process.env.AWS_EXECUTION_ENV ??= 'AWS_Lambda_nodejs22.x'
    const { default: packed } = await import('@sparticuz/chromium')
    const args = ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage']
    browser = await chromium.launch({ executablePath: await packed.executablePath(), args })
  }, 120_000)
  afterAll(async () => {
    for (const context of contexts) await context.close()
    await browser?.close()
  })
  return {
    async open(url, { width, colorScheme } = LOOKS[0]!) {
      const height = width === 360 ? 800 : 900
      const context = await browser.newContext({ viewport: { width, height }, colorScheme })
      contexts.push(context)
      const visitor = new Visitor(await context.newPage(), url)
      await visitor.go('')
      return visitor
    },
  }
}

/** Someone with a browser. Nothing may ever be wrong in its console. */
export class Visitor {
  readonly page: Page
  readonly #url: string
  readonly #wrong: string[] = []

  constructor(page: Page, url: string) {
    this.page = page
    this.#url = url
    page.on('console', (message) => {
      if (message.type() === 'error' || message.type() === 'warning') this.#wrong.push(message.text())
    })
    page.on('pageerror', (error) => this.#wrong.push(error.message))
  }

  async go(path: string): Promise<void> {
    const response = await this.page.goto(this.#url + path)
    expect([path, response?.status()]).toEqual([path, 200])
    this.requireSound()
  }

  requireSound(): void {
    expect(this.#wrong).toEqual([])
  }

  /** What keeps people from using the page, by the rules of axe for WCAG AA. */
  async obstacles(): Promise<string[]> {
    // The page's own policy would forbid to load the script.
    await this.page.evaluate(axe.source)
    const { violations } = await this.page.evaluate(() =>
      (globalThis as unknown as { axe: typeof axe }).axe.run(),
    )
    const wide = await this.page.evaluate('document.documentElement.scrollWidth - innerWidth')
    return [
      ...violations.map(({ id, nodes }) => `${id}: ${nodes[0]?.html}`),
      ...((wide as number) > 0 ? [`${wide} px too wide`] : []),
    ]
  }

  /** Where screenshots are asked for. */
  async shoot(name: string, { width, colorScheme }: Look): Promise<void> {
    if (SCREENSHOTS === undefined) return
    await mkdir(SCREENSHOTS, { recursive: true })
    await this.page.screenshot({
      path: join(SCREENSHOTS, `${name}-${width}-${colorScheme}.png`),
      fullPage: true,
    })
  }
}
