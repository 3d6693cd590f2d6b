export const ENQUEUE_HELP = `
Each row becomes a payload of the job that its --id column names. The payloads of an
id are processed in the order of their scores, never side by side.

Score and time columns hold numbers or timestamps, either ISO 8601 or written like
"2011-10-11 13:45:40.276000+02:00" (without a zone: UTC). A timestamp becomes ms
since 1970, with its microseconds as a fraction. An empty --perform-in or --lane field
means the default, an empty --expires-in never, an empty --tenant none; an empty --score
is an error. Without a lane, the rules of the queue decide by the tenant. If a CSV --payload field looks like a
JSON object or array, it is stored as JSON, otherwise as text. Numbers in a payload
keep all their digits. A --headers field is a JSON object, or empty. CSV must have a
header and be UTF-8; quoted fields may contain line breaks. Gzip files are unpacked.

The file is streamed, so it can be of any size. Every 1,000 rows are stored in one
transaction; after a failure, the rows before it stay. The error says how many rows
were stored: fix the file and continue with --skip. Pushing a row twice does no harm
while the first still waits, since equal payloads of an id merge. If the first has
been performed already, the second is performed too. At the end, the command reports
how many rows merged, with earlier rows or with earlier pushes.

With --shuffle, all rows are checked before the first is stored. If storing fails,
continue with the --seed and --skip that the error names; the file must have the same
rows in the same places.

Examples:
  $ lockstep enqueue receipts --csv receipt.csv --id case:concept:name \\
      --score time:timestamp
  $ lockstep enqueue orders events.ndjson.gz --id order_id --score version
  $ lockstep enqueue orders orders.csv --id order --dry-run
  $ lockstep enqueue mails mails.csv --id address --perform-in send_at --skip 52000

Exit codes: 0 every row is stored, or there are none, 1 a row was refused or the
database failed, 2 wrong usage, such as a column that the CSV does not have,
130 interrupted (129 by SIGHUP, 143 by SIGTERM).`
