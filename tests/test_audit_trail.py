"""Events: the audit trail of what was found, repaired or removed."""

import json
from datetime import timedelta

import pytest
from typer.testing import CliRunner

from fleetlake.care.maintenance import maintain
from fleetlake.cli import app
from fleetlake.lake import open_lake
from fleetlake.lake.audit_trail import EventKind, read_events, record_event


def repair_that_fails(lake):
    with lake.transaction():
        record_event(lake, EventKind.REPAIR, "A file was forgotten.", rows=1)
        _ = 1 / 0


def test_an_event_says_what_happened_to_how_many_rows_and_who_did_it(lake_path, monkeypatch):
    monkeypatch.setattr("getpass.getuser", lambda: "ana")
    with open_lake(lake_path) as lake:
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


def test_an_event_of_a_change_that_is_rolled_back_did_not_happen(lake_path):
    with open_lake(lake_path) as lake:
        with pytest.raises(ZeroDivisionError):
            repair_that_fails(lake)

        assert read_events(lake) == []


def test_a_user_without_a_name_still_leaves_events(lake_path, monkeypatch):
    def no_name():
        raise OSError("no such user")

    monkeypatch.setattr("getpass.getuser", no_name)
    with open_lake(lake_path) as lake:
        record_event(lake, EventKind.CHECK, "A file is missing.")
        [event] = read_events(lake)

    assert event.actor.startswith("unknown@")


@pytest.mark.proof
def test_maintenance_keeps_all_events_in_their_order(lake_path):
    with open_lake(lake_path) as lake:
        for number in range(12):  # more rows than DuckLake keeps in the catalog
            record_event(lake, EventKind.CHECK, f"File {number} is missing.")
        before = read_events(lake)

        maintain(lake, keep=timedelta(0))
        record_event(lake, EventKind.REPAIR, "All were read again.")

        *kept, last = read_events(lake)
    assert kept == before
    assert [event.number for event in (*kept, last)] == [*range(13)]


@pytest.fixture
def commands(lake_path, monkeypatch):
    """Return a function that runs a command on a lake with two events, one of them a year old."""
    monkeypatch.setenv("FLEETLAKE_LAKE", str(lake_path))
    monkeypatch.setattr("getpass.getuser", lambda: "ana")
    with open_lake(lake_path) as lake:
        record_event(lake, EventKind.RETENTION, "Old rows were deleted.", rows=1200)
        lake.execute("update meta.events set happened_at = '2025-06-01'")
        record_event(lake, EventKind.CHECK, "A file is missing.", details={"files": 1})
    return lambda *words: CliRunner().invoke(app, words, env={"COLUMNS": "200"}).output


def test_events_are_listed_for_people_and_for_programs(commands):
    shown = commands("records", "events")
    [old, new] = json.loads(commands("records", "events", "list", "--format", "json"))
    header, *lines = commands("records", "events", "list", "--format", "csv").splitlines()

    assert "2025-06-01 00:00" in shown
    assert "1,200" in shown
    assert old["rows"] == 1200
    assert (new["kind"], new["details"]) == ("check", {"files": 1})
    assert new["actor"].startswith("ana@")
    assert header == "happened_at,kind,actor,account_profile,endpoint,rows,summary,details"
    assert lines[0].startswith("2025-06-01T00:00:00+00:00,retention,ana@")
    assert lines[1].endswith(',A file is missing.,"{""files"": 1}"')


def test_events_can_be_limited_to_those_since_a_time(commands):
    [event] = json.loads(commands("records", "events", "--since", "2025-06-02", "--format", "json"))

    assert event["summary"] == "A file is missing."


def test_status_mentions_the_events_of_the_last_day_in_one_line(commands):
    last = commands("status").splitlines()[-1]

    assert last == "1 event in the last day (check): see `fleetlake records events list`."
