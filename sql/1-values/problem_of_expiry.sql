-- What is wrong with the expiry of a job to be pushed, as the text after `jobs[index].`; NULL if nothing is.
CREATE OR REPLACE FUNCTION @schema@.problem_of_expiry(_expires_in timestamptz, _perform_in timestamptz) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
  WHEN NOT isfinite(_expires_in) OR _expires_in >= '10000-01-01 00:00:00+00'::timestamptz
    THEN 'expires_in must be a finite time before the year 10000'
  WHEN _expires_in < _perform_in THEN 'expires_in must not be before perform_in'
END;
