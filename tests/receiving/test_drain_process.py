"""The drain as a process of its own: at once when it is quiet, in few commits in a storm."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fleetlake.errors import LakeError
from fleetlake.lake import open_lake
from fleetlake.receiving import drain
from fleetlake.receiving.drain import Drain, Drained
from tests.support.alert_messages import an_alert, push, with_id
from tests.support.waiting import wait_for


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "journal"


class Waits(threading.Event):
    """Ends a drain after some looks at the journal, instead of waiting; keeps what it waited."""

    def __init__(self, most: int, before: Callable[[int], object] = lambda _: None) -> None:
        super().__init__()
        self.most, self.before, self.seconds = most, before, list[float]()

    def wait(self, timeout: float | None = None) -> bool:
        self.before(len(self.seconds))
        self.seconds.append(timeout or 0.0)
        return len(self.seconds) > self.most


@pytest.fixture
def committed(monkeypatch) -> list[Drained]:
    """Return the commits of a drain."""
    commits: list[Drained] = []

    def commit(*words: Any, **options: Any) -> Drained:
        if not (drained := once(*words, **options)).is_nothing:
            commits.append(drained)
        return drained

    once = drain.drain_once
    monkeypatch.setattr(drain, "drain_once", commit)
    return commits


def test_a_message_is_committed_at_once_and_the_next_ones_after_a_pause(
    lake_path, folder, committed, monkeypatch
):
    monkeypatch.setattr(drain, "time", SimpleNamespace(monotonic=lambda: 0.0))
    waits = Waits(4, before=lambda look: push(folder, with_id(an_alert(look + 1))))

    Drain(lake_path, folder).run(waits)

    first, *later = waits.seconds
    assert len(committed) == 4
    assert first == drain.LOOK_SECONDS
    assert set(later) == {drain.COMMIT_SECONDS}


def test_an_idle_journal_costs_no_commit_and_no_look_at_the_lake(
    lake_path, folder, committed, monkeypatch
):
    push(folder, with_id(an_alert()))

    opened = []
    monkeypatch.setattr(drain, "open_lake", lambda *w, **o: opened.append(w) or open_lake(*w, **o))

    Drain(lake_path, folder).run(Waits(50))

    assert len(committed) == len(opened) == 1


def test_large_messages_that_do_not_fit_into_one_commit_are_brought_by_the_next(
    lake_path, folder, monkeypatch
):
    monkeypatch.setattr(drain, "MOST_BYTES", 1_000)
    push(folder, *(with_id(an_alert(n, info={"text": "x" * 900})) for n in range(3)))

    Drain(lake_path, folder).run(Waits(4))

    with open_lake(lake_path, read_only=True) as lake:
        assert lake.rows("select count(*) from raw.pushed_alerts") == [(3,)]


def test_waits_for_a_failing_lake_double_and_begin_anew_after_a_commit(
    lake_path, folder, monkeypatch, caplog
):
    full = LakeError("The disk is full.")
    outcomes = iter([full, full, full, Drained(messages=1), full, full, LakeError("It is locked.")])

    def commit(*_: object, **__: object) -> Drained:
        outcome = next(outcomes)
        if isinstance(outcome, LakeError):
            raise outcome
        return outcome

    monkeypatch.setattr(drain, "drain_once", commit)
    waits = Waits(7, before=lambda look: push(folder, with_id(an_alert(look))))

    Drain(lake_path, folder).run(waits)

    assert waits.seconds == pytest.approx([0.1, 2, 4, 8, 2, 2, 4, 8], abs=0.9)
    assert [message.rpartition(": ")[2] for message in caplog.messages] == [
        "The disk is full.",
        "The disk is full.",
        "It is locked.",
    ]


@pytest.mark.proof
def test_the_process_brings_a_message_into_the_lake_and_ends_at_sigterm(lake_path, folder):
    environment = os.environ | {
        "FLEETLAKE_LAKE": str(lake_path),
        "FLEETLAKE_PUSH_JOURNAL": str(folder),
    }
    push(folder, with_id(an_alert(1)))
    with subprocess.Popen(
        [sys.executable, "-m", "fleetlake.receiving.drain"], env=environment
    ) as p:

        def count() -> int:
            with open_lake(lake_path, read_only=True) as lake:
                [(rows,)] = lake.rows("select count(*) from raw.pushed_alerts")
                return int(rows)

        try:
            wait_for(lambda: count() == 1, between=0.01)
            push(folder, with_id(an_alert(2)))
            wait_for(lambda: count() == 2, between=0.01)
        finally:
            p.send_signal(signal.SIGTERM)

    assert p.returncode == 0
