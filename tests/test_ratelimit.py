"""The call limit: no sixty seconds have more calls than allowed, over all processes."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetlake.errors import BudgetSpent, SettingsError
from fleetlake.service import rate_limit as ratelimit
from fleetlake.service.rate_limit import MAX_CALLS_PER_MINUTE, CallLimit, SharedCallLimit

START = 1_800_000_000.0


class Clock:
    """A clock that moves only when somebody sleeps or when it is set."""

    def __call__(self) -> float:
        return self.now

    def __init__(self) -> None:
        self.now = START
        self.slept = 0.0

    async def sleep(self, seconds: float) -> None:
        assert 0 < seconds <= 120
        self.now += seconds
        self.slept += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(ratelimit.asyncio, "sleep", made.sleep)
    return made


@pytest.fixture
def limit_of(tmp_path: Path, clock: Clock) -> Callable[..., CallLimit]:
    def make(
        calls_per_minute: int, account: str = "an account", calls_per_day: int = 0
    ) -> CallLimit:
        return CallLimit(
            tmp_path / "state",
            account=account,
            calls_per_minute=calls_per_minute,
            calls_per_day=calls_per_day,
            clock=clock,
        )

    return make


def most_in_a_minute(calls: list[float]) -> int:
    return max((sum(start <= call < start + 60 for call in calls) for start in calls), default=0)


def test_calls_within_the_limit_do_not_wait(limit_of, clock):
    limit = limit_of(5)

    for _ in range(5):
        asyncio.run(limit.wait_turn())

    assert clock.slept == 0


def test_the_call_beyond_the_limit_waits_until_the_first_is_a_minute_old(limit_of, clock):
    limit = limit_of(5)
    for _ in range(5):
        asyncio.run(limit.wait_turn())
        clock.now += 1

    asyncio.run(limit.wait_turn())

    assert clock.now == pytest.approx(START + 60)


@settings(max_examples=30)
@given(
    steps=st.lists(st.tuples(st.floats(0, 30), st.integers(0, 1)), max_size=60),
    calls_per_minute=st.integers(1, 7),
)
def test_no_sixty_seconds_exceed_the_limit_across_two_processes(
    tmp_path_factory, steps, calls_per_minute
):
    folder = tmp_path_factory.mktemp("state")
    clock, made = Clock(), []
    both = [
        CallLimit(folder, account="a", calls_per_minute=calls_per_minute, clock=clock)
        for _ in range(2)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ratelimit.asyncio, "sleep", clock.sleep)
        for pause, who in steps:
            clock.now += pause
            asyncio.run(both[who].wait_turn())
            made.append(clock.now)
    for limit in both:
        limit.close()

    assert most_in_a_minute(made) <= calls_per_minute


def test_many_callers_at_once_share_the_limit(limit_of, clock):
    limit, made = limit_of(10), []

    async def call() -> None:
        await limit.wait_turn()
        made.append(clock.now)

    async def all_at_once() -> None:
        await asyncio.gather(*(call() for _ in range(35)))

    asyncio.run(all_at_once())

    assert len(made) == 35
    assert most_in_a_minute(made) <= 10


def test_accounts_have_separate_limits(limit_of, clock):
    for account in ("one", "another"):
        asyncio.run(limit_of(1, account).wait_turn())

    assert clock.slept == 0


def test_calls_of_a_process_that_ended_still_count(limit_of, clock):
    first = limit_of(1)
    asyncio.run(first.wait_turn())
    first.close()

    asyncio.run(limit_of(1).wait_turn())

    assert clock.slept == pytest.approx(60)


@pytest.mark.parametrize("seconds_back", [1, 59, 61, 3600, 86400 * 365])
def test_a_clock_set_back_delays_nobody_by_more_than_two_minutes(limit_of, clock, seconds_back):
    limit = limit_of(3)
    for _ in range(3):
        asyncio.run(limit.wait_turn())

    clock.now -= seconds_back
    asyncio.run(limit.wait_turn())

    assert clock.slept <= 120


def test_a_clock_that_steps_back_by_less_than_a_second_does_not_lift_the_limit(limit_of, clock):
    limit = limit_of(3)
    for _ in range(3):
        asyncio.run(limit.wait_turn())

    clock.now -= 0.5
    asyncio.run(limit.wait_turn())

    assert clock.slept == pytest.approx(60.5)


def test_the_limit_holds_again_after_a_clock_was_set_back(limit_of, clock):
    limit, made = limit_of(3), []
    for _ in range(3):
        asyncio.run(limit.wait_turn())
    clock.now -= 3600

    for _ in range(20):
        asyncio.run(limit.wait_turn())
        made.append(clock.now)

    assert most_in_a_minute(made) <= 3


def test_without_a_limit_there_is_no_file_and_no_wait(limit_of, clock, tmp_path):
    limit = limit_of(0)

    for _ in range(1000):
        asyncio.run(limit.wait_turn())

    assert clock.slept == 0
    assert not (tmp_path / "state").exists()


def test_the_ring_buffer_wraps_without_losing_count(limit_of, clock, monkeypatch):
    monkeypatch.setattr(ratelimit, "MAX_CALLS_PER_MINUTE", 7)
    limit, made = limit_of(7), []

    for _ in range(30):
        asyncio.run(limit.wait_turn())
        made.append(clock.now)

    assert most_in_a_minute(made) <= 7


def test_the_file_reveals_nothing_about_the_account_and_is_private(limit_of, tmp_path):
    limit_of(5, "https://svc.example/ MGR-ID")

    [file] = (tmp_path / "state").iterdir()

    assert "MGR" not in file.name
    assert "svc" not in file.name
    assert file.stat().st_mode & 0o077 == 0


def test_a_limit_larger_than_the_ring_buffer_is_refused(limit_of):
    with pytest.raises(SettingsError, match="FLEETLAKE_CALLS_PER_MINUTE"):
        limit_of(MAX_CALLS_PER_MINUTE + 1)


def test_a_folder_that_cannot_be_created_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(SettingsError, match="call limit") as failure:
        CallLimit(tmp_path / "file" / "state", account="a", calls_per_minute=1)

    assert "FLEETLAKE_STATE" in failure.value.remedy


def test_a_truncated_file_is_not_a_crash(limit_of, tmp_path):
    limit_of(5).close()
    [file] = (tmp_path / "state").iterdir()
    file.write_bytes(b"\x05\x00\x00")

    asyncio.run(limit_of(5).wait_turn())


@pytest.mark.usefixtures("closed_files")
def test_a_closed_limit_has_no_file_open_and_may_be_closed_twice(limit_of):
    limit = limit_of(5)

    limit.close()
    limit.close()


def test_the_daily_limit_is_shared_by_all_processes_and_resets_at_midnight(limit_of, clock):
    one, other = limit_of(0, calls_per_day=5), limit_of(0, calls_per_day=5)
    for limit in (one, other, one, other, one):
        asyncio.run(limit.wait_turn())

    with pytest.raises(BudgetSpent, match="All 5 calls"):
        asyncio.run(other.wait_turn())

    clock.now = (clock.now // 86_400 + 1) * 86_400
    asyncio.run(other.wait_turn())


def test_a_call_over_the_limit_of_a_shared_lake_sleeps_until_its_turn(clock):
    waits = iter([40.0, 2.5, 0.0])

    class Limit(SharedCallLimit):
        def __init__(self) -> None:
            """Connect to no database."""

        def reserve(self) -> float:
            return next(waits)

    asyncio.run(Limit().wait_turn())

    assert clock.slept == 42.5


def test_a_refused_call_does_not_count(limit_of, clock):
    limit = limit_of(2, calls_per_day=2)
    for _ in range(2):
        asyncio.run(limit.wait_turn())
    with pytest.raises(BudgetSpent):
        asyncio.run(limit.wait_turn())

    clock.now += 86_400
    asyncio.run(limit.wait_turn())

    assert clock.slept == 0
