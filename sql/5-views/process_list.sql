-- Worker processes, with the number of jobs each has in progress. `overdue`: by the server's clock the process should
-- have renewed its lease by now. Then it is dead or out of reach, or the clock was set: this decides nothing. A running
-- worker removes a process that was silent for a lease, and so frees what it had in progress.
CREATE OR REPLACE VIEW @schema@.process_list AS
SELECT p.process_id, p.host, p.pid, p.version, p.queues, p.slots, p.started_at, p.expires_at, p.quiet,
  (SELECT count(*) FROM @schema@.jobs j WHERE j.claimed_by = p.process_id) AS working,
  p.expires_at <= clock_timestamp() AS overdue
FROM @schema@.processes p;
