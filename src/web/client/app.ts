// What makes the page live. Without it, everything can be seen, and nothing be done.
import { listen } from './act.ts'
import { refresh } from './refresh.ts'
import { countSelected } from './selection.ts'

refresh()
countSelected()
listen()
