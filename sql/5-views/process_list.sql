-- Worker processes, with the number of jobs each has in progress. `overdue`: by the server's clock the process should
-- have renewed its lease by now. Then it is dead or out of reach, or the clock was set: this decides nothing. A running
-- worker removes a process that was silent for a lease, and so frees what it had in progress.
--
-- From `reported_at` on, the columns are what the process last said of itself, with a renewal of its lease: the longest
-- delay of its event loop in the seconds before that (ms), its memory (bytes), its shards of each queue, and what its slots
-- were doing. They are null if it has not said anything yet.
CREATE OR REPLACE VIEW @schema@.process_list AS
SELECT p.process_id, p.host, p.pid, p.version, p.queues, p.slots, p.started_at, p.expires_at, p.quiet,
  (SELECT count(*) FROM @schema@.jobs j WHERE j.claimed_by = p.process_id) AS working,
  p.expires_at <= clock_timestamp() AS overdue,
  p.request, r.reported_at, r.event_loop_delay, r.memory, r.shards, r.doing
FROM @schema@.processes p
LEFT JOIN @schema@.process_reports r USING (process_id);
