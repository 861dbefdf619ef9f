"""The journal: a message is on disk when `append` returns, and is read back once."""

import asyncio
import os
import stat
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from errno import EIO, ENOSPC
from pathlib import Path

import pytest

from fleetlake.errors import LakeError
from fleetlake.receiving.journal import (
    Journal,
    JournalLimits,
    JournalOverloaded,
    open_journal,
)
from fleetlake.receiving.journal_table import (
    JOURNAL_FILE,
    JournalDamaged,
    JournalTable,
    PushedMessage,
)
from tests.support.journals import ARRIVED, bodies, delete, later, read, write

NO_PAUSE = JournalLimits(pause_seconds=0)


class Disk:
    """A disk that counts commits, and fails or waits when a test says so."""

    def __init__(self) -> None:
        self.commits = 0
        self.error: OSError | None = None
        self.is_free = threading.Event()
        self.is_free.set()
        self.is_asked = threading.Event()

    def commit(self) -> None:
        self.is_asked.set()
        assert self.is_free.wait(120)
        self.commits += 1
        if self.error:
            raise self.error

    def journal(self, folder: Path, **options) -> Journal:
        disk = self

        class Table(JournalTable):
            def append(self, messages: Sequence[PushedMessage]) -> None:
                disk.commit()
                super().append(messages)

            def probe(self) -> None:
                if disk.error:
                    raise disk.error
                super().probe()

        return open_journal(folder, new_table=Table, **options)


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def folder(tmp_path) -> Path:
    return tmp_path / "push-journal"


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
    async def append() -> None:
        journal = open_journal(folder)
        for number in range(3):
            await journal.append(b"message %d" % number, later(number))
        await journal.close()

    asyncio.run(append())

    found = read(folder).messages
    assert [message.body for message in found] == [b"message 0", b"message 1", b"message 2"]
    assert [message.received_at for message in found] == [later(number) for number in range(3)]


def test_messages_that_arrive_while_the_disk_is_busy_are_committed_together(folder, disk):
    async def append() -> None:
        journal = disk.journal(folder)
        disk.is_free.clear()
        first = asyncio.create_task(journal.append(b"first", ARRIVED))
        await blocked(disk)
        rest = asyncio.gather(*(journal.append(b"%d" % n, ARRIVED) for n in range(50)))
        await asyncio.sleep(0)
        disk.is_free.set()
        await asyncio.gather(first, rest)
        await journal.close()

    asyncio.run(append())

    assert disk.commits == 2
    assert bodies(folder) == [b"first", *(b"%d" % n for n in range(50))]


def test_a_request_that_is_given_up_while_it_waits_stops_no_other(folder, disk):
    async def append() -> list[str]:
        async with asyncio.timeout(120):
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

    assert asyncio.run(append()) == ["", ""]
    assert bodies(folder) == [b"given up", b"1", b"2"]


def test_a_message_is_not_acknowledged_before_it_is_committed(folder, disk):
    async def append() -> bool:
        journal = disk.journal(folder)
        disk.is_free.clear()
        task = asyncio.create_task(journal.append(b"body", ARRIVED))
        await blocked(disk)
        was_done = task.done()
        disk.is_free.set()
        await task
        await journal.close()
        return was_done

    assert asyncio.run(append()) is False


@pytest.mark.parametrize("errno", [ENOSPC, EIO])
def test_a_failed_commit_fails_only_the_messages_that_waited_for_it(folder, disk, errno):
    async def append() -> list[list[str]]:
        journal = disk.journal(folder, limits=NO_PAUSE)
        before = await outcomes(journal, [b"before"])
        disk.error = OSError(errno, os.strerror(errno))
        during = await outcomes(journal, [b"during 1", b"during 2"])
        disk.error = None
        after = await outcomes(journal, [b"after"])
        await journal.close()
        return [before, during, after]

    before, during, after = asyncio.run(append())

    assert (before, after) == ([""], [""])
    assert during == [os.strerror(errno)] * 2
    assert bodies(folder) == [b"before", b"after"]


class SmallDisk(JournalTable):
    """A journal that SQLite finds no space for beyond a few pages."""

    def append(self, messages: Sequence[PushedMessage]) -> None:
        with self._locked() as connection:
            connection.execute("pragma max_page_count = 20")
        super().append(messages)


def test_a_write_that_stops_in_the_middle_leaves_nothing_that_is_read(folder):
    async def append() -> list[str]:
        journal = open_journal(folder, limits=NO_PAUSE, new_table=SmallDisk)
        done = [(await outcomes(journal, [body]))[0] for body in (b"a", b"b" * 200_000, b"c")]
        await journal.close()
        return done

    assert asyncio.run(append()) == ["", "database or disk is full", ""]
    assert bodies(folder) == [b"a", b"c"]
    assert read(folder).losses == []


def test_a_drained_journal_has_space_for_more_messages(folder):
    async def append() -> list[str]:
        journal = open_journal(folder, limits=NO_PAUSE, new_table=SmallDisk)
        done = []
        for number in range(1, 31):
            done += await outcomes(journal, [b"x" * 30_000])
            delete(folder, number)
        await journal.close()
        return done

    assert asyncio.run(append()) == [""] * 30
    assert (folder / JOURNAL_FILE).stat().st_size < 100_000


def test_while_no_thread_can_be_started_messages_are_refused_and_later_ones_stored(
    folder, monkeypatch
):
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    async def append() -> list[list[str]]:
        async with asyncio.timeout(120):
            journal = open_journal(folder)
            with monkeypatch.context() as patch:
                patch.setattr(ThreadPoolExecutor, "submit", refuse)
                first = await outcomes(journal, [b"first"])
            second = await outcomes(journal, [b"second"])
            await journal.close()
            return [first, second]

    assert asyncio.run(append()) == [["can't start new thread"], [""]]
    assert bodies(folder) == [b"second"]


def test_after_a_failure_messages_are_refused_at_once_until_the_pause_is_over(folder, disk):
    async def append() -> tuple[list[str], int]:
        journal = disk.journal(folder, limits=JournalLimits(pause_seconds=3600))
        disk.error = OSError(ENOSPC, os.strerror(ENOSPC))
        await outcomes(journal, [b"first"])
        commits = disk.commits
        disk.error = None
        refused = await outcomes(journal, [b"second"])
        assert await journal.fault() == os.strerror(ENOSPC)
        await journal.close()
        return refused, disk.commits - commits

    assert asyncio.run(append()) == ([os.strerror(ENOSPC)], 0)


def test_the_journal_finds_out_by_itself_that_the_disk_works_again(folder, disk):
    async def append() -> list[str | None]:
        journal = disk.journal(folder, limits=NO_PAUSE)
        faults = [await journal.fault()]
        disk.error = OSError(ENOSPC, os.strerror(ENOSPC))
        await outcomes(journal, [b"body"])
        faults += [await journal.fault()]
        disk.error = None
        faults += [await journal.fault()]
        await journal.close()
        return faults

    assert asyncio.run(append()) == [None, os.strerror(ENOSPC), None]


def test_what_waits_for_the_disk_is_bounded_by_count_and_bytes(folder, disk):
    async def append(limits: JournalLimits) -> list[str]:
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
    for limits in (JournalLimits(messages=3), JournalLimits(bytes=3)):
        disk.is_asked.clear()
        asyncio.run(append(limits))

    assert bodies(folder) == expected * 2


def test_a_message_larger_than_the_bound_is_stored_when_nothing_else_waits(folder):
    async def append() -> None:
        journal = open_journal(folder, limits=JournalLimits(bytes=10))
        await journal.append(b"x" * 1000, ARRIVED)
        await journal.close()

    asyncio.run(append())

    assert bodies(folder) == [b"x" * 1000]


def test_a_closed_journal_stores_nothing_and_closing_waits_for_what_was_accepted(folder, disk):
    async def append() -> list[str]:
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

    assert asyncio.run(append()) == ["the receiver is stopping"]
    assert bodies(folder) == [b"accepted"]


def test_several_receivers_write_to_one_journal(folder):
    async def append() -> None:
        both = [open_journal(folder) for _ in range(2)]
        sent = [journal.append(b"%d" % n, ARRIVED) for n in range(50) for journal in both]
        await asyncio.gather(*sent)
        for journal in both:
            await journal.close()

    asyncio.run(append())

    assert sorted(bodies(folder)) == sorted(b"%d" % n for n in range(50) for _ in range(2))
    assert read(folder).losses == []


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_the_journal_is_readable_only_by_its_owner(folder, umask):
    before = os.umask(umask)
    try:
        journal = open_journal(folder)
        asyncio.run(journal.append(b"body", ARRIVED))
        files = {file.name: oct(stat.S_IMODE(file.stat().st_mode)) for file in folder.iterdir()}
        asyncio.run(journal.close())
    finally:
        os.umask(before)

    assert oct(stat.S_IMODE(folder.stat().st_mode)) == "0o700"
    assert {f"{JOURNAL_FILE}-wal", JOURNAL_FILE} < {*files}
    assert {*files.values()} == {"0o600"}


@pytest.mark.parametrize("removed", [JOURNAL_FILE, f"{JOURNAL_FILE}-wal"])
def test_a_message_written_to_a_removed_file_is_not_acknowledged(folder, removed):
    async def append() -> list[str]:
        journal = open_journal(folder, limits=NO_PAUSE)
        await journal.append(b"first", ARRIVED)
        (folder / removed).unlink()
        done = await outcomes(journal, [b"lost"]) + await outcomes(journal, [b"kept"])
        await journal.close()
        return done

    refused, kept = asyncio.run(append())

    assert refused == "a file of the journal was removed"
    assert kept == ""
    assert bodies(folder)[-1] == b"kept"


def test_a_damaged_journal_is_an_error_that_says_what_to_do(folder):
    write(folder, b"a message")
    (folder / JOURNAL_FILE).write_bytes(b"no database" * 999)

    with pytest.raises(JournalDamaged, match="file is not a database") as raised:
        open_journal(folder)

    assert "move the folder away" in raised.value.remedy


def test_a_folder_that_cannot_be_created_is_an_error_in_plain_words(tmp_path):
    (tmp_path / "file").write_text("not a folder")

    with pytest.raises(LakeError, match="Not a directory"):
        open_journal(tmp_path / "file" / "journal")


@pytest.mark.usefixtures("closed_files")
def test_no_file_stays_open_after_a_journal_was_closed(folder, disk):
    async def append() -> None:
        journal = disk.journal(folder, limits=NO_PAUSE)
        disk.error = OSError(EIO, os.strerror(EIO))
        assert await outcomes(journal, [b"no data on disk"]) == [os.strerror(EIO)]
        assert await journal.fault() == os.strerror(EIO)
        disk.error = None
        await journal.append(b"stored", ARRIVED)
        await journal.close()

    asyncio.run(append())
