-- The text of an error in at most 2,000 characters. Each error of a chain keeps its beginning, which says most: its message,
-- and where it was thrown. describeError, in src/errors.ts, puts the chain together. (Dots, since an encoding may lack an
-- ellipsis.)
CREATE OR REPLACE FUNCTION @schema@.brief_error(_error text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
  WHEN length(_error) <= 2000 THEN _error
  ELSE (
    SELECT left(string_agg(CASE
      WHEN length(c.text) <= 2000 / c.count - 12 THEN c.text
      ELSE left(c.text, greatest(2000 / c.count - 15, 0)::integer) || '...'
    END, E'\ncaused by: ' ORDER BY c.place), 2000)
    FROM (
      SELECT t.text, t.place, count(*) OVER () AS count
      FROM unnest(string_to_array(_error, E'\ncaused by: ')) WITH ORDINALITY AS t(text, place)
    ) c
  )
END;
