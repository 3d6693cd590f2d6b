export const WORK_HELP = `
-r names a TypeScript or JavaScript module that exports queues, as defineQueue()
returns them: by name, as the default export, or in a default array. They are served
in the order of their definition. One module may also export a function configure(),
which returns middleware, a logger, a scheduler and the like, sets up what handlers
need, and tears it down in stop().

Signals:
  SIGTERM, SIGINT  take no new jobs, finish those in work, and exit. After
                   --shutdown-timeout, abort them, wait five more seconds, and
                   release them unchanged. A second signal ends it at once
  SIGTSTP          quiet: take no new jobs, leave the shards to other processes
  SIGTTIN          log what every slot is doing, and since when
  others           such as SIGHUP and SIGQUIT: end at once; the jobs in work wait
                   until the lease ends

Schedulers pick the shard that a slot serves next:
  fair             all queues in turn; lane 1 of a queue half as often as lane 0
  lag              the job that has waited longest, in any queue
  seq              round robin
  weighted:a=6,b=3 queues by weight; queues not named have weight 1
  strict:a,b       queues in this order, then those not named

Splitters assign shards to processes:
  dynamic          live processes share them evenly and take over from each other
  default          this process gets all
  node:K/k         this node gets every K-th shard, from the k-th, counted from 0

With --processes, the parent replaces processes that die, passes signals on, and
exits after all of them. The log is JSON lines on stdout, or short text on a
terminal; LOCKSTEP_LOG_LEVEL sets the minimum level.

With --health-port, it answers probes: /livez and /healthz (the event loop runs),
/readyz (it takes jobs; not while it stops) and /startupz, each with 200 or 503 and the
reasons as JSON. The answers tell of no job. With --processes, the parent answers, and
each verdict is that of all.

An operator stops it from elsewhere by lockstep processes stop, as by SIGTERM.

Examples:
  $ lockstep work -r ./queues.ts
  $ lockstep work -r ./queues.ts --queues orders,mails --slots 20 --processes 4
  $ lockstep work -r ./queues.ts --scheduler weighted:orders=6,mails=3
  $ lockstep work -r ./queues.ts --drain
  $ lockstep work -r ./queues.ts --health-port 8080

A process that could not renew its lease, or was stopped for longer than that, aborts
its handlers' signals. If they keep running, it kills itself shortly before the lease
ends, or at once, so that nothing is processed twice; the end of its log says so, if
that can be written within 20 ms.

Exit codes:
  0         stopped cleanly, or drained
  1         could not start, or a handler ignored its signal or called process.exit()
  2         wrong usage
  75        a later release has migrated the database, and this one can't work with
            it: start the new release instead
  130, 143  ended at once by a second signal
  137       killed, by itself (see above) or from outside`
