-- A row for each queue and minute of the last day in which rounds ended. They are counted every few seconds, so those
-- at the end of a minute may be under the next. `expired` counts payloads.
CREATE OR REPLACE VIEW @schema@.queue_minutes AS
SELECT q.name AS queue, c.minute, c.processed, c.failed, c.expired
FROM @schema@.minute_counters c JOIN @schema@.queues q USING (queue_id);
