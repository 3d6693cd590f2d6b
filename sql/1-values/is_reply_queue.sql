-- Whether a queue is named by the id of a job in lmstfy's API. A worker answers a synchronous task by publishing to such a queue, and
-- trim_reply_queues deletes it some time later. (The length spares most names the pattern: every push asks.)
CREATE OR REPLACE FUNCTION @schema@.is_reply_queue(_name text) RETURNS boolean
LANGUAGE sql IMMUTABLE
RETURN octet_length(_name) >= 28 AND _name ~ '^[-_A-Za-z0-9]+/1?[0-9A-HJKMNP-TV-Z]{26}$';
