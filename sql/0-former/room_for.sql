-- What take_within_limits of the release before calls, if it was under way while the schema was migrated: such a claim gets nothing, and
-- the next one counts (see free_places). Without it, that claim would fail.
CREATE OR REPLACE FUNCTION @schema@.room_for(
  _process_id integer, _queue_id integer, _tenant text, _limits jsonb, _now timestamptz,
  OUT free integer, OUT until timestamptz
)
LANGUAGE plpgsql AS $$
BEGIN
  free := 0;
END
$$;
