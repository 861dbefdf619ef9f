"""`fleetlake alerts drain`: for a receiver that does not drain."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fleetlake.cli import app
from fleetlake.cli.alerts.drain import in_words
from fleetlake.errors import StreamBusy
from fleetlake.lake import open_lake
from fleetlake.lake.locks import drain_lock
from fleetlake.receiving import drain
from fleetlake.receiving.drain import Drained
from tests.support.alert_messages import an_alert, push, with_id
from tests.support.processes import environment


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "push-journal"


def drained(lake_path: Path) -> Any:
    """Run the command and return its result."""
    env = {**environment(lake_path.parent), "COLUMNS": "200"}
    return CliRunner().invoke(app, ["alerts", "drain"], env=env)


def count(lake_path: Path) -> Any:
    with open_lake(lake_path, read_only=True) as lake:
        return lake.rows("select count(*) from raw.pushed_alerts")[0][0]


def test_it_says_what_it_brought_into_the_lake_and_a_second_run_that_nothing_waits(
    lake_path, folder
):
    push(folder, with_id(an_alert(1)), [with_id(an_alert(n)) for n in (1, 2)], b"garbage")
    push(folder, {"type": "test", "friendly_info": "Test of the push destination."})

    first, second = drained(lake_path), drained(lake_path)

    assert first.stdout == "4 messages drained: 2 new alerts, 1 in quarantine, 1 test message.\n"
    assert second.stdout.replace("\n", "") == f"Nothing waits in {folder}."
    assert (first.exit_code, second.exit_code) == (0, 0)
    assert count(lake_path) == 2


def test_it_says_how_many_faults_the_journal_has():
    assert in_words(Drained(messages=1_200, alerts=1, losses=2)) == (
        "1,200 messages drained: 1 new alert, 0 in quarantine, "
        "2 faults of the journal (`fleetlake records events list`)."
    )


def test_while_another_process_drains_for_long_it_says_so_and_changes_nothing(
    lake_path, folder, monkeypatch
):
    monkeypatch.setattr(drain.drain_once, "__kwdefaults__", {"profile": "", "lock_seconds": 0})
    push(folder, with_id(an_alert()))

    with drain_lock(lake_path):
        done = drained(lake_path)

    assert isinstance(done.exception, StreamBusy)
    assert "Another process is writing pushed records" in str(done.exception)
    assert (done.stdout, count(lake_path)) == ("", 0)


def test_stopped_in_the_middle_it_says_what_is_in_the_lake(lake_path, folder, monkeypatch):
    left = [drain.drain_once]

    def then_ctrl_c(*words: Any, **named: Any) -> Drained:
        if not left:
            raise KeyboardInterrupt
        return left.pop()(*words, **named)

    monkeypatch.setattr(drain, "drain_once", then_ctrl_c)
    monkeypatch.setattr(drain, "MOST_MESSAGES", 1)
    push(folder, *(with_id(an_alert(n)) for n in range(2)))

    done = drained(lake_path)

    assert done.stdout.startswith("1 message drained: 1 new alert, 0 in quarantine.\n")
    assert (done.exit_code, count(lake_path)) == (130, 1)
