-- The tokens of the HTTP API with these digests. It runs with its owner's rights: who serves the API can look up a token that it
-- was shown, and can't list others.
CREATE OR REPLACE FUNCTION @schema@.find_tokens(_digests bytea[])
RETURNS TABLE (digest bytea, name text, scopes text[], queues text[], rate_requests integer, rate_per integer)
LANGUAGE plpgsql STABLE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
@lookups@
AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY SELECT t.digest, t.name, t.scopes, t.queues, t.rate_requests, t.rate_per FROM @schema@.api_tokens t WHERE t.digest = ANY (_digests);
END
$$;
REVOKE ALL ON FUNCTION @schema@.find_tokens FROM PUBLIC;
