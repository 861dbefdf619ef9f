"""Reading journals: torn ends wait or are skipped, damage is reported, positions continue."""

from pathlib import Path

import pytest

from fleetlake.receiving import journal_reader
from fleetlake.receiving.journal_reader import (
    START,
    Position,
    bytes_after,
    journals,
    newest_segment,
    read_batch,
    remove_until,
)
from fleetlake.receiving.segments import MAGIC, segments
from tests.receiving.journals import bodies, read, record, write_segment

SENT = [b"one", b"two, which is longer", b"three"]
RECORDS = [record(body) for body in SENT]
WHOLE = b"".join(RECORDS)


@pytest.fixture
def journal(tmp_path) -> Path:
    path = tmp_path / "6f9619ff-8b86-d011-b42d-00c04fc964ff"
    write_segment(path, 1, WHOLE)
    return path


def test_reading_continues_where_the_last_batch_ended(journal):
    position, found = START, []
    while (batch := read(journal, position, limit=1)).messages:
        found += [message.body for message in batch.messages]
        position = batch.until

    assert found == SENT
    assert position == Position(1, len(WHOLE))


def test_a_batch_has_at_most_so_many_bytes_and_a_larger_message_is_alone(journal):
    write_segment(journal, 2, record(b"x" * 500) + record(b"y"))
    position, sizes = START, []
    while (batch := read_batch(journal, position, limit=9, max_bytes=60)).messages:
        sizes.append([len(message.body) for message in batch.messages])
        position = batch.until

    assert sizes == [[3, 20, 5], [500], [1]]


def test_a_message_that_is_not_complete_is_waited_for_in_the_newest_segment(journal):
    for cut in range(len(WHOLE)):
        write_segment(journal, 1, WHOLE[:cut])
        early = read(journal)
        write_segment(journal, 1, WHOLE)
        rest = read(journal, early.until)

        assert [message.body for message in early.messages + rest.messages] == SENT
        assert early.damage == rest.damage == []


def test_an_incomplete_message_before_another_segment_is_skipped_without_damage(journal):
    write_segment(journal, 2, record(b"next"))
    ends = [len(b"".join(RECORDS[: number + 1])) for number in range(len(SENT))]
    for cut in range(len(WHOLE)):
        write_segment(journal, 1, WHOLE[:cut])

        found = read(journal)

        complete = [body for body, end in zip(SENT, ends, strict=True) if end <= cut]
        assert [message.body for message in found.messages] == [*complete, b"next"]
        assert found.damage == []
        assert found.until == Position(2, len(record(b"next")))


@pytest.mark.parametrize("after", [[], [b"next"]])
def test_any_wrong_byte_in_the_middle_is_reported_and_costs_one_message(journal, after):
    begin, length = len(RECORDS[0]), len(RECORDS[1])
    for number, body in enumerate(after):
        write_segment(journal, 2 + number, record(body))
    for place in range(length):
        broken = bytearray(WHOLE)
        broken[begin + place] ^= 0x40
        write_segment(journal, 1, bytes(broken))

        found = read(journal)

        assert [message.body for message in found.messages] == [SENT[0], SENT[2], *after]
        assert found.damage == [f"segment 1: {length} bytes from byte {begin} on are not a message"]


def test_a_damaged_message_that_holds_the_first_bytes_of_a_record_costs_only_itself(journal):
    damaged = bytearray(record(MAGIC * 9))
    damaged[-1] ^= 1
    write_segment(journal, 1, RECORDS[0] + damaged + RECORDS[2])

    found = read(journal)

    assert [message.body for message in found.messages] == [SENT[0], SENT[2]]
    assert found.damage == [
        f"segment 1: {len(damaged)} bytes from byte {len(RECORDS[0])} on are not a message"
    ]


def test_damage_is_reported_once(journal):
    write_segment(journal, 1, RECORDS[0] + b"garbage" + RECORDS[1] + RECORDS[2])
    first = read(journal, limit=2)
    second = read(journal, first.until)

    assert (len(first.damage), second.damage) == (1, [])
    assert [message.body for message in first.messages + second.messages] == SENT


@pytest.mark.parametrize(("end", "damaged"), [(bytes(500), 0), (b"\x00\x01", 1), (b"\xf5P", 0)])
def test_zeros_after_a_power_failure_are_no_damage_and_other_bytes_are(journal, end, damaged):
    write_segment(journal, 1, WHOLE + end)
    write_segment(journal, 2, record(b"next"))

    found = read(journal)

    assert [message.body for message in found.messages] == [*SENT, b"next"]
    assert len(found.damage) == damaged


def test_a_complete_last_message_with_a_wrong_checksum_is_damage_once_a_segment_follows(journal):
    write_segment(journal, 1, WHOLE[:-1] + b"?")
    waiting = read(journal)
    write_segment(journal, 2, record(b"next"))
    found = read(journal, waiting.until)

    assert waiting.damage == []
    assert [message.body for message in found.messages] == [b"next"]
    assert len(found.damage) == 1


def test_a_position_after_the_end_of_a_cut_segment_continues_in_the_next(journal):
    position = Position(1, len(WHOLE) + 99)
    assert read(journal, position).messages == []

    write_segment(journal, 2, record(b"next"))

    assert bodies(journal, position) == [b"next"]


def test_an_old_position_whose_segments_are_gone_continues_with_the_oldest_there_is(tmp_path):
    write_segment(tmp_path, 7, WHOLE)

    assert bodies(tmp_path, Position(3, 12)) == SENT


def test_segments_before_a_position_are_removed_but_never_the_newest(journal):
    write_segment(journal, 2, WHOLE)
    write_segment(journal, 3, b"")

    remove_until(journal, Position(2, 5))
    assert segments(journal) == [2, 3]

    remove_until(journal, Position(9, 0))
    assert segments(journal) == [3]


def test_a_lost_journal_is_told_by_the_number_of_its_newest_segment(journal, tmp_path):
    assert newest_segment(journal) == 1
    assert newest_segment(tmp_path / "missing") == 0


def test_the_bytes_after_a_position_are_those_that_wait(journal):
    write_segment(journal, 2, record(b"next"))

    assert bytes_after(journal, START) == len(WHOLE) + len(record(b"next"))
    assert bytes_after(journal, Position(1, len(RECORDS[0]))) == len(WHOLE) - len(RECORDS[0]) + len(
        record(b"next")
    )
    assert bytes_after(journal, Position(2, len(record(b"next")))) == 0


def test_a_segment_that_a_drain_removes_meanwhile_has_no_bytes_that_wait(journal, monkeypatch):
    monkeypatch.setattr(journal_reader, "segments", lambda _: [0, 1])

    assert bytes_after(journal, START) == len(WHOLE)


def test_only_folders_named_by_an_id_are_journals(journal, tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "6f9619ff-8b86-d011-b42d-00c04fc964fe").write_text("a file")

    assert journals(tmp_path) == {journal.name: journal}
    assert journals(tmp_path / "missing") == {}
