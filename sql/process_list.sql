-- Worker processes believed alive, with the number of jobs each has in work.
CREATE OR REPLACE VIEW @schema@.process_list AS
SELECT p.process_id, p.host, p.pid, p.version, p.queues, p.slots, p.started_at, p.expires_at, p.quiet,
  (SELECT count(*) FROM @schema@.jobs j WHERE j.claimed_by = p.process_id) AS working
FROM @schema@.processes p
WHERE p.expires_at > clock_timestamp();
