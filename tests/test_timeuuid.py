"""Version-1 UUIDs as positions in time, compared with the standard library."""

from datetime import UTC, datetime, timedelta
from uuid import NAMESPACE_DNS, UUID, uuid5

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetlake.decoding.timeuuid import embedded_ticks, embedded_time, smallest_at

instants = st.datetimes(datetime(1971, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - hypothesis adds the zone
tails = st.binary(min_size=8, max_size=8)


def uuid_at(instant: datetime, tail: bytes) -> UUID:
    """Return a version-1 UUID of the instant, with eight chosen bytes after the time."""
    head = UUID(smallest_at(instant)).bytes[:8]
    return UUID(bytes=head + bytes([tail[0] & 0x3F | 0x80]) + tail[1:])


def signed_bytes(value: UUID) -> list[int]:
    return [byte - 256 if byte > 127 else byte for byte in value.bytes[8:]]


@given(instants)
def test_the_bound_of_an_instant_contains_that_instant(instant):
    assert embedded_time(smallest_at(instant)) == instant


@given(instants, tails)
def test_no_uuid_of_an_instant_sorts_before_its_bound(instant, tail):
    bound, other = UUID(smallest_at(instant)), uuid_at(instant, tail)

    assert bound.version == 1
    assert signed_bytes(bound) <= signed_bytes(other)
    assert embedded_ticks(str(bound)) == other.time


@given(instants, instants)
def test_bounds_are_ordered_as_their_instants_are(one, other):
    ticks = embedded_ticks(smallest_at(one)), embedded_ticks(smallest_at(other))

    assert (ticks[0] < ticks[1]) == (one < other)


def test_text_order_of_uuids_would_be_wrong():
    early = datetime(2026, 1, 1, tzinfo=UTC)
    late = early + timedelta(minutes=7)

    assert smallest_at(late) < smallest_at(early)
    assert embedded_ticks(smallest_at(late)) > embedded_ticks(smallest_at(early))


@given(instants, st.integers(0, 9))
def test_a_tenth_of_a_microsecond_later_is_the_same_microsecond(instant, tenths):
    value = UUID(smallest_at(instant))
    fields = (value.time_low + tenths) & 0xFFFFFFFF, *value.fields[1:]
    finer = UUID(fields=fields)

    if fields[0] >= value.time_low:
        assert embedded_time(str(finer)) == instant


@pytest.mark.parametrize(
    "text", ["", "junk", str(uuid5(NAMESPACE_DNS, "a")), "00000000-0000-0000-0000-000000000000"]
)
def test_a_text_that_is_not_a_version_1_uuid_is_refused(text):
    with pytest.raises(ValueError):  # noqa: PT011 - two texts of two makers
        embedded_ticks(text)
