-- Whether the row of a new job carries its payload. A migration from before such rows leaves this false at first: a
-- transaction of before may call functions that don't know of them. Once all those have ended, `migrate` makes it true (see
-- carrying.ts). It never becomes false again.
CREATE OR REPLACE FUNCTION @schema@.carries() RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN @carries@;
