-- How long a start counts for a rate of so many rounds in `_per` seconds: a little longer than that, since a handler begins a
-- moment after its job was claimed. Without it, one process may begin late what it claimed at the start of a window, and another
-- at once what it claims after it: a provider of 20 calls a second would see 40. It's a tenth of `_per`, and of a second at
-- most; what starts are noted by, a hundredth of `_per`, is in there.
CREATE OR REPLACE FUNCTION @schema@.rate_window(_per double precision) RETURNS interval
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN greatest(_per, 0.99 * _per + least(0.1, _per / 10)) * interval '1 second';
