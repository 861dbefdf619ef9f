"""The journal: a message is on disk when `append` returns, and is read back once."""

import asyncio
import os
import random
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from errno import EIO, ENOSPC
from functools import partial
from pathlib import Path

import pytest

from fleetlake.errors import LakeError
from fleetlake.privacy.journal_purge import blank_until
from fleetlake.receiving import segment_writer
from fleetlake.receiving.journal import (
    Journal,
    JournalLimits,
    JournalOverloaded,
    open_journal,
)
from fleetlake.receiving.journal_reader import START, Position, journals, remove_until
from fleetlake.receiving.segment_writer import SegmentWriter
from fleetlake.receiving.segments import segment_path, segments
from tests.receiving.journals import ARRIVED, bodies, later, read, record, write_segment

NO_PAUSE = JournalLimits(pause_seconds=0)


class Disk:
    """A disk that counts flushes, and fails or waits when it is told to."""

    def __init__(self) -> None:
        self.flushes = 0
        self.error: OSError | None = None
        self.is_free = threading.Event()
        self.is_free.set()
        self.is_asked = threading.Event()

    def flush(self, _file: int) -> None:
        self.is_asked.set()
        assert self.is_free.wait(30)
        self.flushes += 1
        if self.error:
            raise self.error

    def fail(self, _folder: Path) -> None:
        raise OSError(ENOSPC, os.strerror(ENOSPC))

    def journal(self, folder: Path, **options) -> Journal:
        return open_journal(folder, new_writer=partial(SegmentWriter, flush=self.flush), **options)


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def folder(tmp_path) -> Path:
    return tmp_path / "push-journal"


def only_journal(folder: Path) -> Path:
    [path] = journals(folder).values()
    return path


async def outcomes(journal: Journal, sent: list[bytes]) -> list[str]:
    """Append messages at the same time; return what became of each: "", or why not."""
    done = await asyncio.gather(
        *(journal.append(body, ARRIVED) for body in sent), return_exceptions=True
    )
    return ["" if result is None else str(result) for result in done]


async def blocked(disk: Disk) -> None:
    """Wait until the journal's thread waits for the disk."""
    assert await asyncio.to_thread(disk.is_asked.wait, 30)


def test_messages_are_read_back_in_order_with_the_time_of_their_arrival(folder):
    async def write() -> None:
        journal = open_journal(folder)
        for number in range(3):
            await journal.append(b"message %d" % number, later(number))
        await journal.close()

    asyncio.run(write())

    found = read(only_journal(folder)).messages
    assert [message.body for message in found] == [b"message 0", b"message 1", b"message 2"]
    assert [message.received_at for message in found] == [later(number) for number in range(3)]


@pytest.mark.parametrize(
    "body",
    [b"", b"\x00\xff", b"\xf5PJ1" * 9, "é\n".encode() * 70_000],
    ids=["empty", "not text", "like records", "long"],
)
def test_a_body_of_any_bytes_is_kept_as_it_is(folder, body):
    async def write() -> None:
        journal = open_journal(folder)
        await journal.append(body, ARRIVED)
        await journal.close()

    asyncio.run(write())

    assert bodies(only_journal(folder)) == [body]


def test_messages_that_arrive_while_the_disk_is_busy_are_flushed_together(folder, disk):
    async def write() -> None:
        journal = disk.journal(folder)
        disk.is_free.clear()
        first = asyncio.create_task(journal.append(b"first", ARRIVED))
        await blocked(disk)
        rest = asyncio.gather(*(journal.append(b"%d" % n, ARRIVED) for n in range(50)))
        await asyncio.sleep(0)
        disk.is_free.set()
        await asyncio.gather(first, rest)
        await journal.close()

    asyncio.run(write())

    assert disk.flushes == 2
    assert bodies(only_journal(folder)) == [b"first", *(b"%d" % n for n in range(50))]


def test_a_request_that_is_given_up_while_it_waits_stops_no_other(folder, disk):
    async def write() -> list[str]:
        async with asyncio.timeout(20):
            journal = disk.journal(folder)
            disk.is_free.clear()
            given_up = asyncio.create_task(journal.append(b"given up", ARRIVED))
            await blocked(disk)
            given_up.cancel()
            rest = asyncio.create_task(outcomes(journal, [b"1", b"2"]))
            await asyncio.sleep(0)
            disk.is_free.set()
            done = await rest
            await journal.close()
            return done

    assert asyncio.run(write()) == ["", ""]
    assert bodies(only_journal(folder)) == [b"given up", b"1", b"2"]


def test_the_name_of_a_segment_is_on_disk_before_its_first_message(folder, disk, monkeypatch):
    flushes: list[tuple[Path, int]] = []
    monkeypatch.setattr(
        segment_writer, "flush_folder", lambda path: flushes.append((path, disk.flushes))
    )

    path = asyncio.run(
        write_one(folder, b"body", new_writer=partial(SegmentWriter, flush=disk.flush))
    )

    assert flushes == [(path, 0)]
    assert disk.flushes == 1


def test_a_message_is_not_acknowledged_before_it_is_flushed(folder, disk):
    async def write() -> bool:
        journal = disk.journal(folder)
        disk.is_free.clear()
        task = asyncio.create_task(journal.append(b"body", ARRIVED))
        await blocked(disk)
        was_done = task.done()
        disk.is_free.set()
        await task
        await journal.close()
        return was_done

    assert asyncio.run(write()) is False


@pytest.mark.parametrize("errno", [ENOSPC, EIO])
def test_a_failed_flush_fails_only_the_messages_that_waited_for_it(folder, disk, errno):
    async def write() -> list[list[str]]:
        journal = disk.journal(folder, limits=NO_PAUSE)
        before = await outcomes(journal, [b"before"])
        disk.error = OSError(errno, os.strerror(errno))
        during = await outcomes(journal, [b"during 1", b"during 2"])
        disk.error = None
        after = await outcomes(journal, [b"after"])
        await journal.close()
        return [before, during, after]

    before, during, after = asyncio.run(write())

    assert (before, after) == ([""], [""])
    assert during == [os.strerror(errno)] * 2
    assert bodies(only_journal(folder)) == [b"before", b"after"]
    assert segments(only_journal(folder)) == [1, 2]


def test_a_write_that_stops_in_the_middle_leaves_nothing_that_is_read(folder, monkeypatch):
    written = os.write

    def full(file: int, content: bytes) -> int:
        if len(content) < 1000:
            return written(file, content)
        written(file, content[:600])
        raise OSError(ENOSPC, os.strerror(ENOSPC))

    async def write() -> list[str]:
        journal = open_journal(folder, limits=NO_PAUSE)
        done = [(await outcomes(journal, [body]))[0] for body in (b"a", b"b" * 2000, b"c")]
        await journal.close()
        return done

    monkeypatch.setattr(os, "write", full)

    assert asyncio.run(write()) == ["", os.strerror(ENOSPC), ""]
    assert bodies(only_journal(folder)) == [b"a", b"c"]


def test_while_no_thread_can_be_started_messages_are_refused_and_later_ones_stored(
    folder, monkeypatch
):
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    async def write() -> list[list[str]]:
        async with asyncio.timeout(20):
            journal = open_journal(folder)
            with monkeypatch.context() as patch:
                patch.setattr(ThreadPoolExecutor, "submit", refuse)
                first = await outcomes(journal, [b"first"])
            second = await outcomes(journal, [b"second"])
            await journal.close()
            return [first, second]

    assert asyncio.run(write()) == [["RuntimeError"], [""]]
    assert bodies(only_journal(folder)) == [b"second"]


def test_after_a_failure_messages_are_refused_at_once_until_the_pause_is_over(folder, disk):
    async def write() -> tuple[list[str], int]:
        journal = disk.journal(folder, limits=JournalLimits(pause_seconds=3600))
        disk.error = OSError(ENOSPC, os.strerror(ENOSPC))
        await outcomes(journal, [b"first"])
        flushes = disk.flushes
        disk.error = None
        refused = await outcomes(journal, [b"second"])
        assert await journal.fault() == os.strerror(ENOSPC)
        await journal.close()
        return refused, disk.flushes - flushes

    assert asyncio.run(write()) == ([os.strerror(ENOSPC)], 0)


def test_the_journal_finds_out_by_itself_that_the_disk_works_again(folder, disk):
    async def write() -> list[str | None]:
        journal = disk.journal(folder, limits=NO_PAUSE)
        faults = [await journal.fault()]
        disk.error = OSError(ENOSPC, os.strerror(ENOSPC))
        await outcomes(journal, [b"body"])
        faults += [await journal.fault()]
        disk.error = None
        faults += [await journal.fault()]
        await journal.close()
        return faults

    assert asyncio.run(write()) == [None, os.strerror(ENOSPC), None]
    assert {file.name for file in only_journal(folder).iterdir()} == {"writer.lock", "00000001.log"}


def test_what_waits_for_the_disk_is_bounded_by_count_and_bytes(folder, disk):
    async def write(limits: JournalLimits) -> list[str]:
        journal = disk.journal(folder, limits=limits)
        disk.is_free.clear()
        accepted = [asyncio.create_task(journal.append(b"0", ARRIVED))]
        await blocked(disk)
        accepted += [asyncio.create_task(journal.append(b"%d" % n, ARRIVED)) for n in (1, 2)]
        await asyncio.sleep(0)
        with pytest.raises(JournalOverloaded):
            await journal.append(b"3", ARRIVED)
        disk.is_free.set()
        await asyncio.gather(*accepted)
        await journal.append(b"4", ARRIVED)
        await journal.close()

    expected = [b"0", b"1", b"2", b"4"]
    for limits in (JournalLimits(messages=3), JournalLimits(bytes=70)):
        disk.is_asked.clear()
        asyncio.run(write(limits))

    assert bodies(only_journal(folder)) == expected * 2


def test_a_message_larger_than_the_bound_is_stored_when_nothing_else_waits(folder):
    async def write() -> None:
        journal = open_journal(folder, limits=JournalLimits(bytes=10))
        await journal.append(b"x" * 1000, ARRIVED)
        await journal.close()

    asyncio.run(write())

    assert bodies(only_journal(folder)) == [b"x" * 1000]


def test_a_closed_journal_stores_nothing_and_closing_waits_for_what_was_accepted(folder, disk):
    async def write() -> list[str]:
        journal = disk.journal(folder)
        disk.is_free.clear()
        task = asyncio.create_task(journal.append(b"accepted", ARRIVED))
        await blocked(disk)
        closing = asyncio.create_task(journal.close())
        await asyncio.sleep(0)
        refused = await outcomes(journal, [b"late"])
        disk.is_free.set()
        await asyncio.gather(task, closing)
        return refused

    assert asyncio.run(write()) == ["the receiver is stopping"]
    assert bodies(only_journal(folder)) == [b"accepted"]


async def write_one(folder: Path, body: bytes, **options) -> Path:
    journal = open_journal(folder, **options)
    await journal.append(body, ARRIVED)
    await journal.close()
    return journal.path


def test_each_start_begins_a_new_segment_of_the_same_journal(folder):
    paths = {asyncio.run(write_one(folder, b"%d" % number)) for number in range(3)}

    assert len(paths) == 1
    assert segments(only_journal(folder)) == [1, 2, 3]
    assert bodies(only_journal(folder)) == [b"0", b"1", b"2"]


def test_a_full_segment_is_followed_by_another_one(folder):
    async def write() -> None:
        journal = open_journal(folder, new_writer=partial(SegmentWriter, segment_bytes=100))
        for number in range(5):
            await journal.append(b"%d" % number * 60, ARRIVED)
        await journal.close()

    asyncio.run(write())

    assert segments(only_journal(folder)) == [1, 2, 3]
    assert bodies(only_journal(folder)) == [b"%d" % number * 60 for number in range(5)]


def test_the_number_of_a_segment_that_was_read_is_never_used_again(folder):
    path = asyncio.run(write_one(folder, b"read"))
    position = read(path).until
    remove_until(path, position)
    segment_path(path, 1).unlink()

    asyncio.run(write_one(folder, b"new"))

    assert segments(path) == [2]
    assert bodies(path, position) == [b"new"]


def test_several_writers_in_one_folder_have_their_own_journals_and_free_ones_are_reused(folder):
    async def write() -> set[Path]:
        both = [open_journal(folder) for _ in range(2)]
        await asyncio.gather(*(journal.append(b"x", ARRIVED) for journal in both))
        for journal in both:
            await journal.close()
        return {journal.path for journal in both}

    first, second = asyncio.run(write()), asyncio.run(write())

    assert len(first) == 2
    assert first == second == set(journals(folder).values())


def test_the_journal_is_readable_only_by_its_owner(folder):
    path = asyncio.run(write_one(folder, b"body"))

    modes = {oct(stat.S_IMODE(file.stat().st_mode)) for file in (folder, path)}
    assert modes == {"0o700"}
    assert {oct(stat.S_IMODE(file.stat().st_mode)) for file in path.iterdir()} == {"0o600"}


def test_a_message_written_to_a_removed_segment_is_not_acknowledged(folder):
    async def write() -> list[str]:
        journal = open_journal(folder, limits=NO_PAUSE)
        await journal.append(b"first", ARRIVED)
        segment_path(journal.path, 1).unlink()
        done = await outcomes(journal, [b"lost"]) + await outcomes(journal, [b"kept"])
        await journal.close()
        return done

    assert asyncio.run(write()) == ["the segment was removed", ""]
    assert bodies(only_journal(folder)) == [b"kept"]


def test_a_folder_that_cannot_be_created_is_an_error_in_plain_words(tmp_path):
    (tmp_path / "file").write_text("not a folder")

    with pytest.raises(LakeError, match="cannot be written: Not a directory"):
        open_journal(tmp_path / "file" / "journal")


WRITER = """
import asyncio, sys
from datetime import UTC, datetime
from pathlib import Path
from fleetlake.receiving.journal import open_journal

async def write(journal, worker):
    number = 0
    while True:
        body = f"{sys.argv[2]}-{worker}-{number}".encode() + b"." * (number * 37 % 3000)
        await journal.append(body, datetime.now(UTC))
        print(body.decode().rstrip("."), flush=True)
        number += 1

async def main():
    journal = open_journal(Path(sys.argv[1]))
    await asyncio.gather(*(write(journal, worker) for worker in range(16)))

asyncio.run(main())
"""


@pytest.mark.proof
def test_after_kills_every_message_whose_append_returned_is_read_once(folder):
    rounds, chance = int(os.environ.get("JOURNAL_KILLS", "12")), random.Random(1)
    acknowledged: list[bytes] = []
    found: list[bytes] = []
    position = START

    for number in range(rounds):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(folder), str(number)], stdout=subprocess.PIPE
        ) as writer:
            assert writer.stdout is not None
            lines = [writer.stdout.readline() for _ in range(chance.randrange(1, 1500))]
            journal = only_journal(folder)
            batch = read(journal, position, limit=chance.randrange(1, 2000))  # while it is written
            writer.kill()
            acknowledged += [
                line.strip() for line in (*lines, *writer.stdout) if line[-1:] == b"\n"
            ]
        while batch.messages:
            assert batch.damage == []
            found += [message.body.rstrip(b".") for message in batch.messages]
            position = batch.until
            remove_until(journal, position)
            batch = read(journal, position, limit=chance.randrange(1, 2000))

    assert len(acknowledged) > rounds
    assert set(acknowledged) - set(found) == set()
    assert len(found) == len(set(found))


def test_the_name_of_a_segment_is_on_disk_before_its_first_record(folder, monkeypatch):
    noted, sync = [], os.fsync

    def note(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            noted.append([file.stat().st_size for file in folder.rglob("*.log")])
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    journal = open_journal(folder)

    asyncio.run(journal.append(b"a message", ARRIVED))

    assert noted[-1] == [0]


@pytest.mark.usefixtures("closed_files")
def test_no_file_stays_open_after_a_journal_was_closed(folder, disk, monkeypatch):
    async def write() -> None:
        journal = disk.journal(folder, limits=NO_PAUSE)
        disk.error = OSError(EIO, os.strerror(EIO))
        assert await outcomes(journal, [b"no data on disk"]) == [os.strerror(EIO)]
        assert await journal.fault() == os.strerror(EIO)
        disk.error = None
        with monkeypatch.context() as patch:
            patch.setattr("fleetlake.receiving.segment_writer.flush_folder", disk.fail)
            assert await outcomes(journal, [b"no name on disk"]) == [os.strerror(ENOSPC)]
        await journal.append(b"stored", ARRIVED)
        await journal.close()

    asyncio.run(write())


def test_what_an_erasure_overwrites_is_on_disk_when_it_reports_it(folder, monkeypatch):
    write_segment(folder, 1, record(b"a name"))
    segment, noted = segment_path(folder, 1), []
    monkeypatch.setattr(os, "fsync", lambda _: noted.append(b"a name" in segment.read_bytes()))

    blanked = blank_until(folder, Position(1, segment.stat().st_size))

    assert blanked == segment.stat().st_size
    assert noted[-1:] == [False]
