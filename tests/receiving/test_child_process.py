"""The receiver's child processes when they end, fail or hang, and its access log."""

import asyncio
import logging
from contextlib import suppress
from itertools import chain, repeat
from types import SimpleNamespace

import pytest

from fleetlake.receiving import access_log, child_process
from fleetlake.receiving.child_process import KeptProcess, LakeMetrics
from tests.support.pushing import BODY, running, signed, until


async def waits_between(tries: int, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return how long a process that cannot be started waits between tries."""
    kept, waits = KeptProcess(["/no/such/command"], {}), list[float]()

    async def wait_for(waiting, seconds):
        waiting.close()
        waits.append(seconds)
        if len(waits) == tries:
            await kept.stop()
        raise TimeoutError

    monkeypatch.setattr(child_process.asyncio, "wait_for", wait_for)
    await kept.keep()
    return waits


def test_a_process_that_never_runs_long_is_started_again_after_waits_that_double(
    monkeypatch, caplog
):
    waits = asyncio.run(waits_between(8, monkeypatch))

    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
    assert caplog.messages[1] == (
        "The process that drains the journal cannot be started: No such file or directory. Pushed "
        "messages stay in the journal; it starts again in 2 s."
    )


def test_a_process_that_has_run_long_is_started_again_soon(monkeypatch):
    monkeypatch.setattr(child_process, "STEADY_SECONDS", 0)

    assert asyncio.run(waits_between(3, monkeypatch)) == [1, 1, 1]


def test_measuring_the_lake_that_takes_too_long_is_ended(monkeypatch):
    monkeypatch.setattr(child_process, "METRICS_SECONDS", 0.01)
    started, start = [], asyncio.create_subprocess_exec

    async def starting(*words, **options):
        started.append(await start(*words, **options))
        return started[-1]

    async def measure() -> None:
        monkeypatch.setattr(asyncio, "create_subprocess_exec", starting)
        metrics = LakeMetrics(["sleep", "60"], {})
        metrics.text()
        await until(lambda: asyncio.sleep(0.001, started and started[0].returncode is not None))
        await metrics.stop()

    asyncio.run(asyncio.wait_for(measure(), 120))

    assert [process.returncode for process in started] == [-9]


def clock_at(*seconds: float) -> SimpleNamespace:
    """Return what stands for `time` in a module: each of these times once, then the last one."""
    times = chain(seconds, repeat(seconds[-1]))
    return SimpleNamespace(monotonic=lambda: next(times))


def test_measuring_goes_on_at_most_once_a_minute_and_one_at_a_time(monkeypatch):
    begun = []

    class Counted(LakeMetrics):
        async def _measured(self) -> str:
            begun.append(self)
            await asyncio.sleep(0)
            return f"figure {len(begun)}"

    async def ask() -> list[str]:
        metrics, seen = Counted([], {}), []
        for now in (0.0, 60.0, 60.1, 60.2, 120.2):
            monkeypatch.setattr(child_process, "time", clock_at(now))
            seen.append(metrics.text())
            for _ in range(4):
                await asyncio.sleep(0)
        await metrics.stop()
        return seen

    assert asyncio.run(ask()) == ["", "figure 1", "figure 1", "figure 2", "figure 2"]
    assert len(begun) == 3


class Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


def test_the_access_log_has_a_line_per_answer_with_its_milliseconds_and_is_off_afterwards(
    tmp_path, monkeypatch
):
    written, clock = Lines(), clock_at(5.0, 5.0125, 7.0, 7.25)

    async def ask() -> None:
        async with running(tmp_path) as receiver:
            monkeypatch.setattr(access_log, "time", clock)
            with access_log.written_access_log(written):
                assert not access_log.LOGGER.propagate
                await receiver.send("POST", "/push", content=BODY, headers=signed())
                await receiver.send("GET", "/unknown")
            await receiver.send("GET", "/healthz")

    asyncio.run(ask())

    assert written.messages == [
        "192.0.2.7 POST /push 200 12.5 ms",
        "192.0.2.7 GET (other path) 404 250.0 ms",
    ]
    assert (access_log.LOGGER.level, access_log.LOGGER.handlers) == (logging.NOTSET, [])
    assert access_log.LOGGER.propagate


def test_a_line_that_does_not_fit_into_the_log_is_dropped_without_waiting(monkeypatch):
    monkeypatch.setattr(access_log, "WAITING_LINES", 1)
    monkeypatch.setattr(access_log.QueueListener, "start", lambda _: None)  # nobody reads
    monkeypatch.setattr(access_log.QueueListener, "stop", lambda _: None)
    written = Lines()

    with access_log.written_access_log(written), suppress(BlockingIOError):
        for _ in range(3):
            access_log.LOGGER.info("a line")

    assert written.messages == []
