"""The gate: as many concurrent calls as the service can take, the most urgent first."""

import asyncio
from collections.abc import Callable

import pytest

from fleetlake.service.gate import NOT_URGENT, Gate


class Clock:
    """A clock that tests set."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def gate_of(clock: Clock) -> Callable[[int], Gate]:
    return lambda most: Gate(most, clock=clock)


def answer(gate: Gate, clock: Clock, seconds: float, path: str = "alerts/") -> None:
    """Complete a call after this many seconds."""
    began = clock.now
    clock.now += seconds
    gate.answered(path, began)


async def enter(gate: Gate, log: list[str], name: str, urgency: float = NOT_URGENT) -> None:
    async with gate.admit(urgency):
        log.append(name)
        await asyncio.sleep(0)


def test_concurrent_calls_never_exceed_the_width_of_the_gate(gate_of):
    gate, under_way, most = gate_of(3), 0, 0

    async def call() -> None:
        nonlocal under_way, most
        async with gate.admit():
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(0)
            under_way -= 1

    async def all_calls() -> None:
        await asyncio.gather(*(call() for _ in range(20)))

    asyncio.run(all_calls())

    assert most == 3


def test_the_most_urgent_waiting_call_goes_first_and_the_others_in_turn(gate_of):
    gate, log = gate_of(1), []

    async def arrive() -> None:
        async with gate.admit():
            calls = [
                asyncio.create_task(enter(gate, log, name, urgency))
                for name, urgency in [
                    ("first", NOT_URGENT),
                    ("second", NOT_URGENT),
                    ("tomorrow", 200.0),
                    ("today", 100.0),
                ]
            ]
            await asyncio.sleep(0)
        await asyncio.gather(*calls)

    asyncio.run(arrive())

    assert log == ["today", "tomorrow", "first", "second"]


def test_a_cancelled_call_frees_its_place_for_the_next(gate_of):
    gate, log = gate_of(1), []

    async def arrive() -> None:
        async with gate.admit():
            given_up = asyncio.create_task(enter(gate, log, "given up"))
            next_one = asyncio.create_task(enter(gate, log, "next"))
            await asyncio.sleep(0)
        # Its turn has come, but it has not started yet.
        given_up.cancel()
        await asyncio.gather(given_up, next_one, return_exceptions=True)

    asyncio.run(arrive())

    assert log == ["next"]


def test_a_refusal_halves_the_width_once_for_all_concurrent_calls(gate_of, clock):
    gate = gate_of(16)
    clock.now = 10.0

    for began in (9.0, 9.5, 9.9):
        gate.refused(began)
    once = gate.width
    clock.now = 12.0
    gate.refused(11.0)

    assert (once, gate.width) == (8, 4)


def test_the_width_never_falls_to_zero(gate_of, clock):
    gate = gate_of(4)

    for _ in range(20):
        clock.now += 1
        gate.refused(clock.now)

    assert gate.width == 1


def test_good_responses_widen_it_by_one_call_per_round_up_to_its_full_width(gate_of, clock):
    gate = gate_of(8)
    gate.refused(0.0)

    for _ in range(5):
        answer(gate, clock, 0.1)
    after_a_round = gate.width
    for _ in range(100):
        answer(gate, clock, 0.1)

    assert (after_a_round, gate.width) == (5, 8)


def test_responses_that_become_slower_narrow_it(gate_of, clock):
    gate = gate_of(8)
    for _ in range(10):
        answer(gate, clock, 0.1)

    for _ in range(5):
        answer(gate, clock, 3.0)

    assert gate.width < 8


def test_a_slow_first_response_does_not_hide_that_later_ones_become_slower(gate_of, clock):
    gate = gate_of(8)
    answer(gate, clock, 30.0)
    for _ in range(50):
        answer(gate, clock, 0.1)

    for _ in range(5):
        answer(gate, clock, 3.0)

    assert gate.width < 8


def test_a_path_that_stays_slower_gets_its_full_width_again(gate_of, clock):
    gate = gate_of(8)
    for _ in range(10):
        answer(gate, clock, 0.1)

    for _ in range(600):
        answer(gate, clock, 3.0)

    assert gate.width == 8


def test_a_path_that_is_always_slow_does_not_narrow_it(gate_of, clock):
    gate = gate_of(8)

    for _ in range(20):
        answer(gate, clock, 0.1, "alerts/")
        answer(gate, clock, 3.0, "historical_locations/")

    assert gate.width == 8
