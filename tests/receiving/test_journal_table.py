"""The journal's table: batches continue, deleted bytes are gone, whatever is missing is said."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from fleetlake.receiving.journal_table import (
    ACKNOWLEDGED_FILE,
    JOURNAL_FILE,
    JournalDamaged,
    JournalTable,
    Position,
    has_messages,
    place_of,
    read_batch,
    read_waiting,
    require_whole,
)
from tests.support.journals import ARRIVED, bodies, delete, on_disk, read, write

SENT = [b"one", b"two, which is longer", b"three"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "journal", *SENT)
    return tmp_path / "journal"


def positions(folder: Path, number: int) -> dict[str, Position]:
    """Return what a lake knows that has read a journal up to a number."""
    return {read(folder).journal_id: Position(number, place_of(folder))}


def fault(folder: Path, number: int = 0, *, is_full: bool = False) -> str:
    """Return what is wrong with a journal for a lake that has read it up to a number."""
    try:
        require_whole(folder, positions(folder, number), is_full=is_full)
    except JournalDamaged as damaged:
        return damaged.what.partition(f"{folder} ")[2]
    return ""


def changed(folder: Path, sql: str, *parameters: object) -> None:
    """Change a journal behind our back."""
    with closing(sqlite3.connect(folder / JOURNAL_FILE)) as connection, connection:
        connection.execute(sql, parameters)


def test_reading_continues_where_the_last_batch_ended(folder):
    number, found = 0, []
    while (batch := read(folder, number, limit=1)).messages:
        found += [message.body for message in batch.messages]
        number = batch.until

    assert found == SENT
    assert number == 3


def test_a_batch_has_at_most_so_many_bytes_and_a_larger_message_is_alone(folder):
    write(folder, b"x" * 500, b"y")
    number, sizes = 0, []
    while (batch := read(folder, number, max_bytes=60)).messages:
        sizes.append([len(message.body) for message in batch.messages])
        number = batch.until

    assert sizes == [[3, 20, 5], [500], [1]]


def test_what_waits_is_counted_from_the_position_of_the_lake(folder):
    waiting = read_waiting(folder, positions(folder, 1))

    assert (waiting.messages, waiting.bytes, waiting.since) == (2, 25, ARRIVED)


def test_deleted_messages_are_in_no_file_and_give_their_space_back(folder):
    write(folder, *(b"secret %d " % number * 900 for number in range(90)))
    with closing(JournalTable(folder)) as receiver:  # keeps the files open
        receiver.probe()
        assert b"secret 44" in on_disk(folder)

        delete(folder, 93)

        assert b"secret" not in on_disk(folder)
        assert b"three" not in on_disk(folder)
    assert (folder / JOURNAL_FILE).stat().st_size < 30_000
    assert has_messages(folder) is False


def test_a_reader_that_keeps_the_bytes_of_deleted_messages_is_reported(folder, monkeypatch):
    monkeypatch.setattr("fleetlake.receiving.journal_table.READER_SECONDS", 0.01)
    with (
        closing(sqlite3.connect(folder / JOURNAL_FILE)) as reader,
        closing(JournalTable(folder)) as table,
    ):
        reader.execute("begin")
        assert reader.execute("select count(*) from messages").fetchone() == (3,)

        assert table.delete_until(3) is False

        reader.execute("rollback")
        assert table.delete_until(3) is True
    assert b"three" not in on_disk(folder)


def test_a_number_is_never_used_again_after_its_message_was_deleted(folder):
    delete(folder, 3)
    write(folder, b"four")

    batch = read(folder, 3)

    assert [one.body for one in batch.messages] == [b"four"]
    assert (batch.until, batch.losses, fault(folder, 3)) == (4, [], "")


def without_log(folder: Path) -> None:
    """Store two more messages, and lose the log that has them, as a removal or a bad block does."""
    with closing(JournalTable(folder)) as table:
        table.probe()
        before = (folder / JOURNAL_FILE).read_bytes()
        write(folder, b"four", b"five")
    (folder / JOURNAL_FILE).write_bytes(before)


def without_second(folder: Path) -> None:
    changed(folder, "delete from messages where number = 2")


def without_last(folder: Path) -> None:
    changed(folder, "delete from messages where number = 3")


def with_changed_bytes(folder: Path) -> None:
    changed(folder, "update messages set body = ? where number = 2", b"another body")


@pytest.mark.parametrize(
    ("damage", "loss", "kept"),
    [
        (without_log, "lacks messages 4 to 5", SENT),
        (without_second, "lacks message 2", [SENT[0], SENT[2]]),
        (without_last, "lacks message 3", SENT[:2]),
        (with_changed_bytes, "is damaged: message 2 is not what was stored", [SENT[0], SENT[2]]),
    ],
)
def test_any_missing_or_changed_message_is_reported_once_and_the_others_are_kept(
    folder, damage: Callable[[Path], None], loss, kept
):
    assert fault(folder, is_full=True) == ""
    damage(folder)
    found = fault(folder, is_full=True)

    batch = read(folder)
    delete(folder, batch.until)
    write(folder, b"next")
    after = read(folder, batch.until)

    assert found
    assert [message.body for message in batch.messages] == kept
    assert batch.losses == [loss]
    assert [message.body for message in after.messages] == [b"next"]
    assert (after.losses, fault(folder, batch.until, is_full=True)) == ([], "")


def test_a_flipped_bit_in_the_log_of_a_killed_receiver_is_reported(folder, tmp_path):
    copy = tmp_path / "after the kill"
    with closing(JournalTable(folder)) as receiver:
        receiver.append(read(folder).messages)
        receiver.append(read(folder).messages)
        shutil.copytree(folder, copy)
    log = bytearray((copy / f"{JOURNAL_FILE}-wal").read_bytes())
    log[len(log) // 2] ^= 1
    (copy / f"{JOURNAL_FILE}-wal").write_bytes(log)
    (copy / f"{JOURNAL_FILE}-shm").unlink()

    batch = read(copy)

    assert 3 <= len(batch.messages) < 12
    assert batch.losses == [f"lacks messages {len(batch.messages) + 1} to 12"]


def test_a_lost_end_of_the_journal_is_reported_after_more_messages_were_stored_too(folder):
    without_log(folder)
    write(folder, b"six")

    batch = read(folder)

    assert [message.body for message in batch.messages] == [*SENT, b"six"]
    assert batch.losses == ["lacks messages 4 to 5"]


def test_any_flipped_page_of_the_file_is_found(folder):
    write(folder, *(b"%d " % number * 500 for number in range(50)))
    whole = (folder / JOURNAL_FILE).read_bytes()
    for page in range(len(whole) // 4096):
        broken = bytearray(whole)
        broken[page * 4096 : page * 4096 + 64] = bytes(one ^ 0x5A for one in whole[:64])
        (folder / JOURNAL_FILE).write_bytes(broken)

        with pytest.raises((JournalDamaged, OSError)):
            require_whole(folder, {}, is_full=True)


def test_a_journal_that_ends_before_the_lakes_position_is_read_from_its_beginning(folder):
    batch = read_batch(folder, positions(folder, 9), limit=9, max_bytes=999)

    assert batch is not None
    assert [message.body for message in batch.messages] == SENT
    assert batch.losses == ["is older than what was read from it, so it is read from its beginning"]
    assert fault(folder, 9) == "is older than what the lake has read from it."


def test_messages_that_went_into_another_lake_are_reported(folder):
    delete(folder, 2)

    batch = read(folder, 1)

    assert [message.body for message in batch.messages] == [SENT[2]]
    [loss] = batch.losses
    assert loss.startswith("lacks message 2, which went into another lake")


def test_a_lost_journal_is_known_by_its_folder(folder, tmp_path):
    known = positions(folder, 3)
    (folder / JOURNAL_FILE).unlink()
    (folder / ACKNOWLEDGED_FILE).unlink()

    for _ in range(2):  # without a journal, then with a new one
        with pytest.raises(JournalDamaged, match="is lost or was replaced"):
            require_whole(folder, known, is_full=False)
        write(folder, b"new")
    require_whole(tmp_path / "another", known, is_full=False)


def test_a_folder_without_a_journal_holds_nothing(tmp_path):
    (tmp_path / JOURNAL_FILE).touch()  # as it is while a receiver creates it
    for folder in (tmp_path, tmp_path / "missing"):
        assert read_batch(folder, {}, limit=1, max_bytes=1) is None
        assert has_messages(folder) is False
        assert read_waiting(folder, {}).messages == 0
    assert bodies(tmp_path / "missing") == []
