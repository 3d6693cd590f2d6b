import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import type { Account } from './account.ts'
import { EmbeddedStartError } from './errors.ts'

/**
 * A shell in its own session that owns the server and its directory as long as we keep its input open.
 *
 * However we end (return, exception, signal, even SIGKILL), the kernel closes that pipe. At the end of its input, the
 * shell stops the server and removes the directory. So nothing here needs an exit or signal handler, which could
 * interfere with those of the application. Commands run one after the other, so that the clean-up never meets an
 * initdb or a start that is still under way.
 */
const SCRIPT = `
  trap '' HUP INT TERM PIPE
  umask 077
  # The usual place may be closed to the account that root lent us.
  directory=$(mktemp -d "$TMPDIR/pg-lockstep-XXXXXX" || mktemp -d /tmp/pg-lockstep-XXXXXX) || exit 1
  cd "$directory"
  echo "$directory"

  create() {
    echo "$1" >password
    for locale in C.UTF-8 C; do
      "$native/bin/initdb" -D "$directory/data" -U postgres --auth=scram-sha-256 --pwfile=password --no-sync \\
        --encoding=UTF8 --locale="$locale" --lc-messages="$locale" && rm password && return
    done
  }

  start() {
    port=$1; shift
    "$native/bin/postgres" -D "$directory/data" -p "$port" "$@" </dev/null & server=$!
    until ready; do
      kill -0 "$server" || { stop QUIT; return 1; }
      sleep 0.05
    done
  }

  # The first line names the process: a server that was killed leaves its file behind.
  ready() { [ "$(head -n 1 data/postmaster.pid)" = "$server" ] && grep -q '^ready' data/postmaster.pid; } 2>/dev/null

  stop() {
    [ -z "$server" ] || { kill -s "$1" "$server"; wait "$server"; server=; }
  }

  server=
  while read -r command argument; do
    case $command in
      use) native=$argument ;;
      create) create "$argument" ;;
      start) start "$argument" "$@" ;;
      stop) stop "$argument" ;;
    esac >>log 2>&1 && echo ok || echo failed
  done

  stop QUIT 2>/dev/null
  cd /
  # A copy of the binaries that is still being written can get in the way, and so can modes that it brought along.
  for attempt in 1 2 3 4 5 6 7 8 9 10; do
    rm -rf "$directory" && exit
    chmod -R u+w "$directory"
    sleep 1
  done 2>/dev/null
`

export class Keeper {
  private readonly lines: AsyncIterator<string>
  private readonly shell: ChildProcess
  private busy = 0
  /** Handles start out this way. */
  private referenced = true
  directory = ''

  private constructor(shell: ChildProcess) {
    this.shell = shell
    this.lines = createInterface({ input: shell.stdout! })[Symbol.asyncIterator]()
    // If the shell is gone, the following read fails too and reports it.
    shell.stdin!.on('error', () => {})
  }

  /** @param settings the server's, as `-c name=value` */
  static async open(account: Account, settings: readonly string[]): Promise<Keeper> {
    const { PATH, TZ, TMPDIR = '/tmp' } = process.env
    const shell = spawn('/bin/sh', ['-c', SCRIPT, 'pg-lockstep-keeper', ...settings], {
      cwd: '/',
      detached: true,
      env: { PATH, TMPDIR, LC_ALL: 'C', ...(TZ && { TZ }) },
      stdio: ['pipe', 'pipe', 'ignore'],
      ...account,
    })
    await once(shell, 'spawn')
    const keeper = new Keeper(shell)
    keeper.directory = await keeper.hold(() => keeper.answer())
    return keeper
  }

  /** Resolves to whether the command succeeded. Its output is in the log. */
  async run(command: string): Promise<boolean> {
    return this.hold(async () => {
      this.shell.stdin!.write(`${command}\n`)
      return (await this.answer()) === 'ok'
    })
  }

  /** Resolves once the server is stopped and the directory is gone. */
  async close(): Promise<void> {
    if (this.shell.exitCode !== null || this.shell.signalCode !== null) return
    await this.hold(async () => {
      this.shell.stdin!.end()
      await once(this.shell, 'exit')
    })
  }

  private async answer(): Promise<string> {
    const line = await this.lines.next()
    if (line.done) throw new EmbeddedStartError('the shell that controls the server has ended', '')
    return line.value
  }

  /** A running server should not keep a finished script alive, but an unanswered command should. */
  private async hold<T>(work: () => Promise<T>): Promise<T> {
    this.busy += 1
    this.reference()
    try {
      return await work()
    } finally {
      this.busy -= 1
      this.reference()
    }
  }

  /** In Bun, as many calls must let go of a stream as have held it; what it starts out with counts as one. */
  private reference(): void {
    const wanted = this.busy > 0
    if (wanted === this.referenced) return
    this.referenced = wanted
    for (const handle of [this.shell, this.shell.stdin, this.shell.stdout]) {
      // Bun's stdin of a child has neither method.
      ;(handle as Partial<ChildProcess> | null)?.[wanted ? 'ref' : 'unref']?.()
    }
  }
}
