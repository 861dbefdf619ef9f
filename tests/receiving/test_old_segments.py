"""Journals of earlier builds: their messages come into the lake, and their folders go."""

from pathlib import Path

import pytest

from fleetlake.lake import open_lake
from fleetlake.machine.file_locks import file_lock
from fleetlake.receiving.drain import Drained, drain_all, has_news, read_positions
from fleetlake.receiving.journal_table import LOCK_FILE
from tests.receiving.alert_messages import an_alert, push, with_id

OLD = "7a0e3e6e-2b1e-4c0a-9d5e-0c5d6f7a8b90"
REBOOT = bytes.fromhex("f5504a31000000245fdaf8cd0006544990dcd000") + (
    b'{"type":"reboot","router":7}'
)
FAILOVER = bytes.fromhex("f5504a310000002c0a3ceae40006544990dcd000") + (
    b'{"type":"failover_event","router":8}'
)
"""Records as those builds wrote them on 2026-06-15 at 12:00 UTC."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "journal"


def old(folder: Path, *segments: bytes) -> Path:
    """Write a journal of segments as those builds did."""
    journal = folder / OLD
    journal.mkdir(parents=True)
    for number, content in enumerate(segments, 1):
        (journal / f"{number:08d}.log").write_bytes(content)
    return journal


def test_messages_that_wait_in_an_old_journal_come_into_the_lake_once(lake_path, folder):
    journal = old(folder, REBOOT, FAILOVER + REBOOT)
    push(folder, with_id(an_alert()))
    with open_lake(lake_path) as lake, lake.transaction():
        lake.execute(
            'insert into meta.journal_positions (journal_id, segment, "offset") values (?, 2, 64)',
            [OLD],
        )

    assert has_news(folder)
    assert drain_all(lake_path, folder) == Drained(messages=4, alerts=3)
    assert not journal.exists()
    with open_lake(lake_path, read_only=True) as lake:
        assert OLD not in read_positions(lake)
        assert lake.rows(
            "select received_at::varchar from raw.pushed_alerts where type = 'reboot'"
        ) == [("2026-06-15 12:00:00+00",)]


@pytest.mark.parametrize(
    ("content", "messages", "losses"),
    [
        (REBOOT + FAILOVER[:-1], 1, 1),
        (REBOOT + b"rubbish" + FAILOVER, 2, 1),
        (REBOOT[:-1] + b"?" + FAILOVER, 1, 1),
        (REBOOT + bytes(500), 1, 0),
        (b"", 0, 0),
    ],
)
def test_damage_of_an_old_journal_is_an_event_and_costs_only_what_is_damaged(
    lake_path, folder, content, messages, losses
):
    old(folder, content)

    drained = drain_all(lake_path, folder)

    assert (drained.messages, drained.losses) == (messages, losses)
    with open_lake(lake_path, read_only=True) as lake:
        assert lake.rows("select count(*) from meta.events where kind = 'journal'") == [(losses,)]


def test_an_old_journal_stays_while_a_receiver_of_that_build_writes_to_it(lake_path, folder):
    journal = old(folder, REBOOT)
    with file_lock(journal / LOCK_FILE, seconds=0):
        assert drain_all(lake_path, folder).is_nothing
        assert journal.exists()

    assert drain_all(lake_path, folder).messages == 1
    assert not journal.exists()
