// `npm ci` on a clone builds the package through its script `prepare`. In a tarball, which is built, that script does
// nothing, but npm warns whoever installs it. So it has another name while npm packs: `hide`, and `show` afterwards.
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const file = fileURLToPath(new URL('../package.json', import.meta.url))
const names = ['"prepare":', '"_prepare":']
const [from, to] = process.argv[2] === 'hide' ? names : names.reverse()
writeFileSync(file, readFileSync(file, 'utf8').replace(from, to))
