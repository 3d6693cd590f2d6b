import type { Child } from 'hono/jsx'
import { Dialog } from './act.tsx'
import { Mark } from './rail.tsx'

/** What every page knows of its request. */
export interface Frame {
  /** The path under which the page is mounted, without a slash at its end. */
  readonly base: string
  /** Sent with every action, so that no other site can send one. */
  readonly token: string
  readonly may: { readonly act: boolean; readonly configure: boolean }
  /** ms since 1970. */
  readonly now: number
}

interface DocumentProps {
  readonly frame: Frame
  readonly title: string
  /** The entry of the navigation that it belongs to. */
  readonly place: 'overview' | 'processes' | 'audit' | undefined
  readonly children?: Child
}

export function Document({ frame, title, place, children }: DocumentProps) {
  const { base } = frame
  return (
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="lockstep-base" content={base} />
        <meta name="lockstep-token" content={frame.token} />
        <title>{title} – pg-lockstep</title>
        <link rel="icon" href={`${base}/assets/icon.svg`} type="image/svg+xml" />
        {STYLES.map((name) => (
          <link rel="stylesheet" href={`${base}/assets/${name}.css`} />
        ))}
        <script type="module" src={`${base}/assets/app.js`} />
      </head>
      <body>
        <a class="skip" href="#main">
          Skip to the content
        </a>
        <header class="bar">
          <div>
            <a class="brand" href={`${base}/`}>
              <Mark size={22} />
              pg-lockstep
            </a>
            <nav aria-label="Pages">
              <ul>
                {NAVIGATION.map(([name, path, text]) => (
                  <li>
                    <a href={base + path} aria-current={name === place ? 'page' : undefined}>
                      {text}
                    </a>
                  </li>
                ))}
              </ul>
            </nav>
            <span class="live" data-clock={String(frame.now)}>
              {new Date(frame.now).toISOString().slice(11, 19)} UTC
            </span>
          </div>
        </header>
        <main id="main">{children}</main>
        {(frame.may.act || frame.may.configure) && <Dialog />}
      </body>
    </html>
  )
}

/** In this order: later ones override. */
const STYLES = ['base', 'parts', 'drawings', 'narrow']

const NAVIGATION = [
  ['overview', '/', 'Overview'],
  ['processes', '/processes', 'Processes'],
  ['audit', '/audit', 'Audit log'],
] as const

/** Where nothing is to be listed: says why, and what would be. */
export function Nothing({ children }: { children: Child }) {
  return (
    <div class="card none">
      <Mark size={34} />
      {children}
    </div>
  )
}
