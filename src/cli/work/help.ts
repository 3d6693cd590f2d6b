export const WORK_HELP = `
-r names a module, TypeScript or JavaScript, that exports queues: what
defineQueue() returns, by name, as default, or in a default array. They are served
in the order of their definition.

Signals:
  SIGTERM, SIGINT  take nothing new, finish what runs, end; after
                   --shutdown-timeout abort it, allow it five seconds more,
                   and give it back unchanged. A second one ends at once
  SIGTSTP          quiet: take nothing new, let other processes have the shards
  SIGTTIN          log what every slot is doing, since when
  others           end at once, such as SIGHUP and SIGQUIT: what was in work waits
                   for the end of the lease

Schedulers, which pick the shard a slot serves next:
  fair             every queue in turn; lane 1 of a queue half as often as lane 0
  lag              what has waited longest, whatever its queue
  seq              round robin
  weighted:a=6,b=3 queues by weight; those not named weigh 1
  strict:a,b       queues in this order, those not named last

Splitters, which deal shards out:
  dynamic          live processes share them evenly and take over from each other
  default          all to this process
  node:K/k         every K-th, beginning with the k-th, counted from 0

With --processes the parent starts others in place of those that die, passes
signals on, and ends when all have. The log is JSON lines on stdout, or short text on
a terminal; LOCKSTEP_LOG_LEVEL sets the least level.

Examples:
  $ lockstep work -r ./queues.ts
  $ lockstep work -r ./queues.ts --queues orders,mails --slots 20 --processes 4
  $ lockstep work -r ./queues.ts --scheduler weighted:orders=6,mails=3
  $ lockstep work -r ./queues.ts --drain

A process that could not renew its lease, or was stopped for longer, aborts its
handlers' signals. Where they run on, it kills itself shortly before the lease ends,
or at once, so that nothing is worked on twice; the end of its log says so.

Exit codes:
  0         stopped in good order, or drained
  1         could not start, or a handler ignored its signal or called process.exit()
  2         wrong usage
  75        a later release has migrated the database, and this one can't work with
            it: start the new one in its place
  130, 143  ended at once by a second signal
  137       killed, by itself (see above) or by somebody else`
