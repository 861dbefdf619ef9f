"""Reading a whole stream from a model of the service: every proven range is complete.

The model is a list of records in memory that filters, orders and pages as the contract says, with
its own code. After every page, the proven ranges are compared with that list.
"""

import asyncio
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetlake.decoding.timeuuid import smallest_at
from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.model import Endpoint
from fleetlake.errors import Unreachable
from fleetlake.planning.coverage import SETTLE, before, still_to_read, unsettled
from fleetlake.planning.intervals import BEGINNING, Interval, coalesce, subtract
from fleetlake.reading.walks import Reading, read_spans
from fleetlake.reading.windows import Span, spans_of

NOW = datetime(2026, 6, 15, 12, tzinfo=UTC)
DAY = timedelta(days=1)
MICROSECOND = timedelta(microseconds=1)
WHOLE = Interval(BEGINNING, NOW)

STREAMS = {
    name: replace(ENDPOINTS[name], page_size=size)
    for name, size in {
        "alerts": 7,  # newest first
        "activity_logs": 7,  # by action id, oldest window first
        "failovers": 5,  # by offset, no guaranteed order
        "net_device_usage_samples": 7,  # oldest first, several ids per call
        "historical_locations": 7,  # oldest first, one id per call
    }.items()
}
COSTLY = settings(max_examples=settings.default.max_examples // 3)
EACH_STREAM = pytest.mark.parametrize("endpoint", STREAMS.values(), ids=STREAMS)


@dataclass
class Model:
    """A service that holds one stream in memory."""

    endpoint: Endpoint
    records: list[dict[str, Any]] = field(default_factory=list)
    calls: int = 0
    fail_at: int | None = None
    spell: Callable[[datetime], str] = datetime.isoformat
    without_keys = staticmethod(str)

    def add(self, moment: datetime, device: int = 1) -> None:
        """Add an event of a device."""
        number = len(self.records)
        tail = random.Random(number).getrandbits(62) | 1 << 63
        timeuuid = str(UUID(int=UUID(smallest_at(moment)).int >> 64 << 64 | tail))
        url = f"https://svc.example/api/v2/things/{device}/"
        said = self.spell(moment)
        self.records.append(
            {
                "alerts": {"created_at": said, "created_at_timeuuid": timeuuid, "router": url},
                "activity_logs": {"action": {"id": f"{number:09}", "timestamp": said}},
                "failovers": {"uuid": f"{number:09}", "started_at": said},
                "net_device_usage_samples": {
                    "created_at": said,
                    "created_at_timeuuid": timeuuid,
                    "net_device": url,
                },
                "historical_locations": {
                    "created_at": said,
                    "created_at_timeuuid": timeuuid,
                    "_device": device,
                },
            }[self.endpoint.name]
            | {"_moment": moment, "_number": number, "_device": device}
        )

    def order(self, record: dict[str, Any]) -> tuple[Any, ...]:
        if "created_at_timeuuid" in record:
            value = UUID(record["created_at_timeuuid"])
            return value.time, [b - 256 if b > 127 else b for b in value.bytes[8:]]
        return record["_moment"], record["_number"]

    def takes(self, record: dict[str, Any], name: str, value: str) -> bool:
        """Return whether a filter selects the record."""
        if name in {"router", "net_device__in"}:
            return str(record["_device"]) in value.split(",")
        member, _, operator = name.rpartition("__")
        if member.endswith("timeuuid"):
            bound = UUID(value)
            left: Any = self.order(record)
            right: Any = (bound.time, [b - 256 if b > 127 else b for b in bound.bytes[8:]])
        elif member == "action__id":
            left, right = record["action"]["id"], value
        else:
            left, right = record["_moment"], datetime.fromisoformat(value)
        return {
            "gt": left > right,
            "gte": left >= right,
            "lt": left < right,
            "lte": left <= right,
        }[operator]

    async def get(
        self, path: str, parameters: dict[str, str], read: Callable[[bytes], Any], **_: Any
    ) -> Any:
        """Respond as the client does."""
        assert path == self.endpoint.path
        self.calls += 1
        if self.calls == self.fail_at:
            raise Unreachable("No answer.")
        for _ in range(self.calls % 4):
            await asyncio.sleep(0)
        return read(self.answer(dict(parameters)))

    def answer(self, asked: dict[str, str]) -> bytes:
        limit, offset = int(asked.pop("limit")), int(asked.pop("offset", 0))
        asked.pop("order_by", None)
        cursor = self.endpoint.cursor
        found = [r for r in self.records if all(self.takes(r, *item) for item in asked.items())]
        if cursor.parameter == "offset":
            found.sort(key=lambda r: r["_number"] * 7919 % 104729)
        elif self.endpoint.name == "activity_logs":
            found.sort(key=lambda r: r["action"]["id"], reverse=True)
        else:
            found.sort(key=self.order, reverse=cursor.is_newest_first)
        page, link = found[offset : offset + limit], None
        if len(found) > offset + limit:
            value: Any = offset + limit
            if cursor.parameter != "offset":
                last = page[-1]
                value = last.get("created_at_timeuuid") or last["action"]["id"]
            link = f"https://svc.example/x/?{cursor.parameter}={value}&limit={limit}"
        shown = [{k: v for k, v in r.items() if not k.startswith("_")} for r in page]
        return json.dumps({"data": shown, "meta": {"limit": limit, "next": link}}).encode()

    def keys(self, interval: Interval = WHOLE, device: int | None = None) -> set[Any]:
        """Return the keys of the records in a range."""
        return {
            self.key(r)
            for r in self.records
            if interval.start <= r["_moment"] < interval.end and device in {None, r["_device"]}
        }

    def key(self, record: dict[str, Any]) -> Any:
        name = self.endpoint.name
        if name == "activity_logs":
            return record["action"]["id"]
        return record["uuid"] if name == "failovers" else record["created_at_timeuuid"]


def keys_of(endpoint: Endpoint, reading: Reading) -> list[Any]:
    return reading.page.rows[endpoint.key[-1]].to_pylist()


@dataclass
class Read:
    """What was read and proven so far, by device."""

    keys: set[Any] = field(default_factory=set)
    proven: dict[int, list[Interval]] = field(default_factory=dict)

    def take(self, model: Model, reading: Reading) -> None:
        """Take a reading; the records of its proven ranges must have been read already."""
        self.keys.update(keys_of(model.endpoint, reading))
        for device in reading.partitions or (0,):
            if reading.proven:
                missing = model.keys(reading.proven, device or None) - self.keys
                assert not missing, f"{reading.proven} is not complete"
                known = self.proven.get(device, [])
                self.proven[device] = coalesce([*known, reading.proven])


def read_all(model: Model, spans: Sequence[Span], *, walks: int = 4, most: int = 10**9) -> Read:
    """Read spans to their end, or at most `most` pages."""

    async def go() -> Read:
        read = Read()
        pages = 0
        readings = read_spans(model, model.endpoint, spans, walks=walks)
        async for reading in readings:
            read.take(model, reading)
            pages += 1
            if pages == most:
                break
        await readings.aclose()
        return read

    return asyncio.run(go())


def spans_for(endpoint: Endpoint, devices: Sequence[int], interval: Interval) -> list[Span]:
    partitions = devices if endpoint.fan_out else [None]
    return spans_of(endpoint, [(partition, interval) for partition in partitions])


@st.composite
def moments(draw: st.DrawFn) -> list[datetime]:
    """Return event times: scattered, in bursts, and in the same microsecond."""
    scales = st.sampled_from([10, 10**4, 10**7, 10**10, 10**13])
    found: list[datetime] = []
    for _ in range(draw(st.integers(0, 6))):
        scale = draw(scales)
        start = draw(st.integers(1, scale))
        steps = draw(st.lists(st.integers(0, scale // draw(scales) + 1), max_size=30))
        for step in steps:
            start += step
            found.append(NOW - start * MICROSECOND)
    return sorted(found)


@EACH_STREAM
@COSTLY
@given(moments=moments(), walks=st.integers(1, 6), is_open=st.booleans(), devices=st.data())
def test_every_record_is_read_and_every_proven_range_is_complete(
    endpoint, moments, walks, is_open, devices
):
    model = Model(endpoint)
    for moment in moments:
        model.add(moment, devices.draw(st.integers(1, 3)) if endpoint.fan_out else 1)
    interval = WHOLE if is_open else Interval(NOW - 30 * DAY, NOW - timedelta(seconds=1))

    read = read_all(model, spans_for(endpoint, [1, 2, 3], interval), walks=walks)

    assert read.keys == model.keys(interval)
    assert set(read.proven) == ({1, 2, 3} if endpoint.fan_out else {0})
    assert all(proven == [interval] for proven in read.proven.values())


@EACH_STREAM
@COSTLY
@given(moments=moments(), fail_at=st.integers(1, 12))
def test_a_failed_page_ends_the_read_with_its_error_and_proven_ranges_stay_correct(
    endpoint, moments, fail_at
):
    model = Model(endpoint)
    for moment in moments:
        model.add(moment)
    spans = spans_for(endpoint, [1], WHOLE)
    model.fail_at = fail_at
    read = Read()

    async def go() -> bool:
        try:
            async for reading in read_spans(model, endpoint, spans, walks=3):
                read.take(model, reading)
        except Unreachable:
            return False
        return True

    assert asyncio.run(go()) == (model.calls < fail_at)
    model.fail_at = None
    [proven] = read.proven.values() or [[]]
    holes = [span for hole in subtract(WHOLE, proven) for span in spans_for(endpoint, [1], hole)]
    rest = read_all(model, holes)

    assert read.keys | rest.keys == model.keys()


@EACH_STREAM
def test_no_call_is_under_way_once_an_abandoned_read_is_closed(endpoint):
    model = Model(endpoint)
    for minute in range(40):
        model.add(WHOLE.start + timedelta(minutes=minute))
    under_way, get = set(), model.get

    async def slow_get(path: str, parameters: dict[str, str], read: Any, **more: Any) -> Any:
        page = await get(path, parameters, read, **more)
        call = object()
        under_way.add(call)
        try:
            await asyncio.sleep(0 if model.calls == 1 else 30)
        finally:
            await asyncio.sleep(0)  # as a client that gives back its connection
            under_way.discard(call)
        return page

    model.get = slow_get

    async def go() -> None:
        reading = read_spans(model, endpoint, spans_for(endpoint, [1], WHOLE), walks=3)
        await anext(reading)
        for _ in range(50):
            await asyncio.sleep(0)
        assert under_way
        await reading.aclose()
        assert not under_way

    asyncio.run(go())


def whole_seconds(moment: datetime) -> str:
    return moment.replace(microsecond=0).isoformat()


@pytest.mark.parametrize("name", ["alerts", "net_device_usage_samples"])
@COSTLY
@given(moments=moments(), most=st.integers(1, 8))
def test_times_in_whole_seconds_prove_no_more_than_was_read(name, moments, most):
    endpoint = STREAMS[name]
    model = Model(endpoint, spell=whole_seconds)
    for moment in moments:
        model.add(moment)

    first = read_all(model, spans_for(endpoint, [1], WHOLE), most=most)
    proven = [interval for intervals in first.proven.values() for interval in intervals]
    holes = subtract(WHOLE, proven)
    rest = read_all(model, [s for hole in holes for s in spans_for(endpoint, [1], hole)])

    assert first.keys | rest.keys == model.keys()


@pytest.mark.parametrize("name", ["alerts", "net_device_usage_samples"])
def test_more_records_in_one_microsecond_than_a_page_holds_are_all_read(name):
    endpoint = STREAMS[name]
    model = Model(endpoint)
    for _ in range(40 * endpoint.page_size):
        model.add(NOW - DAY)
    model.add(NOW - 2 * DAY)
    model.add(NOW - timedelta(hours=1))

    read = read_all(model, spans_for(endpoint, [1], WHOLE))

    assert read.keys == model.keys()


@given(
    late=st.lists(st.integers(61, 640), max_size=6),
    pages=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    gap=st.integers(0, 3 * 86400),
)
def test_late_records_are_read_even_if_every_run_but_the_last_was_killed(late, pages, gap):
    endpoint = STREAMS["alerts"]
    model = Model(endpoint)
    for minute in range(0, 2000, 31):
        model.add(NOW - timedelta(minutes=minute))
    ledger: list[Interval] = []
    kept: set[Any] = set()

    def run(now: datetime, most: int) -> None:
        spans = spans_for(endpoint, [1], WHOLE)
        spans = [Span((), hole) for hole in still_to_read(ledger, now=now)]
        read = read_all(model, spans, walks=2, most=most)
        kept.update(read.keys)
        proven = before(unsettled(now, None).start, read.proven.get(0, []))
        ledger[:] = coalesce([*ledger, *proven])

    now = NOW
    run(now, 10**9)
    for seconds in late:  # visible only from now on
        model.add(NOW - timedelta(seconds=seconds))
    for most in pages:
        now += timedelta(seconds=gap + 60)
        model.add(now - timedelta(seconds=90))
        run(now, most)
    run(now + timedelta(seconds=60), 10**9)

    assert model.keys(Interval(BEGINNING, now - SETTLE)) <= kept


# How events are spread over the last days, in seconds before now.
SHAPES: dict[str, Callable[[random.Random], float]] = {
    "even": lambda dice: dice.uniform(0, 90 * 86400),
    "growing": lambda dice: 90 * 86400 * dice.random() ** 3,
    "fading": lambda dice: 90 * 86400 * (1 - dice.random() ** 3),
    "by day": lambda dice: dice.randrange(90) * 86400 + abs(dice.gauss(0, 7200)),
    "half in one second": lambda dice: dice.choice(
        [dice.uniform(0, 90 * 86400), 40 * 86400.0 + dice.random()]
    ),
    "two eras": lambda dice: dice.uniform(0, 86400) + dice.choice([0, 1000 * 86400]),
}
WALKED_BY_TIME = ["alerts", "activity_logs", "net_device_usage_samples"]


LONG_STREAMS = [
    (name, shape, (number + place) % 2 == 0)
    for number, name in enumerate(WALKED_BY_TIME)
    for place, shape in enumerate(SHAPES)
]


@pytest.mark.proof
@pytest.mark.parametrize("is_other_half", [False, True], ids=["half", "rest"])
@pytest.mark.parametrize(("name", "kind", "is_open"), LONG_STREAMS)
def test_a_long_stream_costs_about_a_tenth_more_calls_than_one_walk(
    name, kind, is_open, is_other_half
):
    """Each shape is read by each walk, to an open or a bounded end; the other cases are proofs."""
    endpoint, dice, shape = STREAMS[name], random.Random(7), SHAPES[kind]
    is_open ^= is_other_half
    pages = 200
    count = pages * endpoint.page_size
    model = Quick(endpoint, sorted(NOW - timedelta(seconds=shape(dice)) for _ in range(count)))
    oldest = model.records[0]["_moment"]
    interval = WHOLE if is_open else Interval(oldest, NOW)

    read = model.read(interval, walks=8)

    assert read == count
    assert model.calls <= pages * 1.1 + 12  # to find out how the events are spread


@pytest.mark.parametrize("name", WALKED_BY_TIME)
def test_a_stream_with_nothing_new_costs_one_call(name):
    model = Quick(STREAMS[name], [])

    assert model.read(Interval(NOW - timedelta(minutes=11), NOW), walks=8) == 0
    assert model.calls == 1


@pytest.mark.parametrize("name", ["alerts", "activity_logs"])
def test_an_empty_stream_costs_one_call_even_if_its_beginning_is_unknown(name):
    model = Quick(STREAMS[name], [])

    assert model.read(WHOLE, walks=8) == 0
    assert model.calls == 1


@pytest.mark.proof
@pytest.mark.parametrize("shape", ["even", "growing", "fading", "by day", "two eras"])
@pytest.mark.parametrize("name", WALKED_BY_TIME)
def test_no_walk_runs_alone_for_long_while_others_are_idle(name, shape):
    endpoint, dice, pages, walks = STREAMS[name], random.Random(7), 200, 16
    back = [SHAPES[shape](dice) for _ in range(pages * endpoint.page_size)]
    model = InStep(endpoint, sorted(NOW - timedelta(seconds=seconds) for seconds in back))

    assert model.read(WHOLE, walks=walks) == len(back)
    assert model.rounds <= 2.75 * pages / walks  # less would cost more calls


class Quick(Model):
    """The model for long streams: it keeps them sorted and counts instead of comparing."""

    def __init__(self, endpoint: Endpoint, moments: list[datetime]) -> None:
        super().__init__(endpoint)
        for moment in moments:
            self.add(moment)
        self.records.sort(key=lambda r: (self.order(r), r["_number"]))
        self._orders = [self.order(r) for r in self.records]

    def answer(self, asked: dict[str, str]) -> bytes:
        kept = self.records
        low, high = 0, len(kept)
        for name, value in asked.items():
            if not name.endswith(("__gt", "__gte", "__lt", "__lte")):
                continue
            place = self._place(name, value)
            if name.endswith(("__gt", "__gte")):
                low = max(low, place)
            else:
                high = min(high, place)
        self.records = kept[low : max(high, low)]
        answer = super().answer({k: v for k, v in asked.items() if "__" not in k or "__in" in k})
        self.records = kept
        return answer

    def _place(self, name: str, value: str) -> int:
        """Return the number of records before a bound."""
        is_after = name.endswith(("__gt", "__lte"))
        low, high = 0, len(self.records)
        while low < high:
            middle = (low + high) // 2
            lies_before = self.takes(
                self.records[middle],
                name.rpartition("__")[0] + ("__lte" if is_after else "__lt"),
                value,
            )
            low, high = (middle + 1, high) if lies_before else (low, middle)
        return low

    def read(self, interval: Interval, *, walks: int) -> int:
        """Return the number of distinct records in the range."""

        async def go() -> set[Any]:
            found: set[Any] = set()
            spans = spans_for(self.endpoint, [1], interval)
            async for reading in read_spans(self, self.endpoint, spans, walks=walks):
                found.update(keys_of(self.endpoint, reading))
            return found

        return len(asyncio.run(go()))


class InStep(Quick):
    """The model in which all responses take the same time: concurrent requests end together."""

    rounds = 0
    _round: asyncio.Task[None] | None = None

    async def get(self, *words: Any, **named: Any) -> Any:
        if self._round is None or self._round.done():
            self._round = asyncio.create_task(self._let_others_ask())
        await self._round
        return await super().get(*words, **named)

    async def _let_others_ask(self) -> None:
        self.rounds += 1
        for _ in range(200):
            await asyncio.sleep(0)
