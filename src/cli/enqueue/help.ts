export const ENQUEUE_HELP = `
Every row becomes a payload of the job that its --id column names. Payloads of one
id are handed over in the order of their scores, and never side by side.

Score and time columns hold numbers or timestamps, ISO 8601 or like
"2011-10-11 13:45:40.276000+02:00" (without a zone: UTC). A timestamp becomes ms
since 1970, its microseconds a fraction. An empty --perform-in or --lane field means
the default; an empty --score is an error. A --payload column of CSV that looks like
a JSON object or array is stored as such, else as text. Numbers in JSON keep the
digits they are written with. CSV has a header and is UTF-8; quoted fields may hold
line breaks. What is packed with gzip is unpacked.

The file is streamed: its size does not matter. Every 1,000 rows are a transaction of
their own, so after a failure the rows before it stay. The error says how many they
are: mend the file and go on with --skip. Rows pushed twice do no harm while the
first still wait, since equal payloads of an id merge; what has been performed
already would be performed again. How many merged, with a row before them or with
what was pushed earlier, is told at the end.

With --shuffle all rows are checked before the first is stored. Where it fails later,
go on with the --seed and --skip that the error tells; the file must have the same
rows in the same places.

Examples:
  $ lockstep enqueue receipts --csv receipt.csv --id case:concept:name \\
      --score time:timestamp
  $ lockstep enqueue orders events.ndjson.gz --id order_id --score version
  $ lockstep enqueue orders orders.csv --id order --dry-run
  $ lockstep enqueue mails mails.csv --id address --perform-in send_at --skip 52000

Exit codes: 0 every row is stored, or there are none, 1 a row or the database was
refused, 2 wrong usage, such as a column that the CSV does not have, 130 interrupted (by
SIGHUP 129, by SIGTERM 143).`
