"""Which records belong to what was erased, or mention it, by the tombstones alone."""

import json

import pytest

from fleetlake.endpoints import ENDPOINTS
from fleetlake.lake.suppression import Suppression
from fleetlake.lake.tombstones import Tombstones, digest_of

KEY = "00ff"
ERASED = ["user 7", "bus twelve"]


@pytest.fixture
def tombstones() -> Tombstones:
    """Return the tombstones of a user and of a router's name."""
    return Tombstones(
        key=KEY, digests=frozenset(("words 2", digest_of(KEY, "words 2", w)) for w in ERASED)
    )


@pytest.mark.parametrize(
    ("endpoint", "record", "is_erased"),
    [
        ("users", {"id": "7"}, True),  # its own id
        ("users", {"id": "70"}, False),
        ("groups", {"id": "7"}, False),  # another thing with the same number
        ("routers", {"id": "7"}, False),
        ("groups", {"id": "1", "user": 7}, True),
        ("groups", {"id": "1", "user": {"id": "7"}}, True),
        ("groups", {"id": "1", "name": "Bus Twelve"}, True),
        ("groups", {"id": "1", "name": "Bus Thirteen"}, False),
    ],
)
def test_a_record_as_received_is_erased_if_it_is_or_mentions_what_was_erased(
    tombstones, endpoint, record, is_erased
):
    suppression = Suppression(endpoint=ENDPOINTS[endpoint], kept_from=None, tombstones=tombstones)

    assert suppression.is_erased_record(json.dumps(record), None) is is_erased
