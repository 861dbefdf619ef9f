"""Events: the audit trail of what was found, repaired or removed."""

import pytest

from fleetlake.lake import open_lake
from fleetlake.lake.audit_trail import EventKind, read_events, record_event


def repair_that_fails(lake):
    with lake.transaction():
        record_event(lake, EventKind.REPAIR, "A file was forgotten.", rows=1)
        _ = 1 / 0


def test_an_event_says_what_happened_to_how_many_rows_and_who_did_it(tmp_path, monkeypatch):
    monkeypatch.setattr("getpass.getuser", lambda: "ana")
    with open_lake(tmp_path) as lake:
        record_event(
            lake,
            EventKind.RETENTION,
            "Rows older than 90 days were deleted.",
            endpoint="historical_locations",
            rows=12,
            details={"days": 90},
        )
        [event] = read_events(lake)

    assert (event.kind, event.endpoint, event.rows) == ("retention", "historical_locations", 12)
    assert event.actor.startswith("ana@")
    assert event.details == {"days": 90}


def test_an_event_of_a_change_that_is_rolled_back_did_not_happen(tmp_path):
    with open_lake(tmp_path) as lake:
        with pytest.raises(ZeroDivisionError):
            repair_that_fails(lake)

        assert read_events(lake) == []


def test_a_user_without_a_name_still_leaves_events(tmp_path, monkeypatch):
    def no_name():
        raise OSError("no such user")

    monkeypatch.setattr("getpass.getuser", no_name)
    with open_lake(tmp_path) as lake:
        record_event(lake, EventKind.CHECK, "A file is missing.")
        [event] = read_events(lake)

    assert event.actor.startswith("unknown@")
