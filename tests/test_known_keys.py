"""Rows that are surely new are not looked for, and every key is stored once all the same."""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from fleetlake.decoding.arrow import schema_of
from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.model import Endpoint
from fleetlake.errors import LakeError
from fleetlake.lake import Lake, known_keys, open_lake
from fleetlake.lake import commit as commits
from fleetlake.lake.commit import commit_proofs
from fleetlake.lake.ducklake import time_range
from fleetlake.lake.known_keys import Doubts, KnownKeys, key_hashes
from fleetlake.lake.loads import StreamProof
from fleetlake.lake.run_state import RunState
from fleetlake.text.quoting import quoted
from tests.support.loads import Load, commit, load_of_rows

NOON = datetime(2026, 6, 15, 12, tzinfo=UTC)
ALERTS = ENDPOINTS["alerts"]
LOCATIONS = ENDPOINTS["historical_locations"]
ACTIVITY_LOGS = ENDPOINTS["activity_logs"]

Row = tuple[Any, ...]  # the minutes after noon, then the members of the key


@pytest.fixture
def any_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let even the smallest batch be divided into new and doubtful rows."""
    monkeypatch.setattr(known_keys, "FEWEST_ROWS", 1)


def table_of(endpoint: Endpoint, rows: Sequence[Row], *, per_page: int = 3) -> pa.Table:
    """Return rows as a table of several pages."""
    schema = schema_of(endpoint)
    given: dict[str, list[Any]] = {
        str(endpoint.event_time): [NOON + timedelta(minutes=row[0]) for row in rows]
    }
    given |= {name: [row[1 + n] for row in rows] for n, name in enumerate(endpoint.key)}
    columns = [pa.array(given.get(f.name, [None] * len(rows)), _plain(f.type)) for f in schema]
    arrays = [
        pa.ExtensionArray.from_storage(f.type, c) if f.type == pa.json_() else c
        for f, c in zip(schema, columns, strict=True)
    ]
    whole = pa.RecordBatch.from_arrays(arrays, schema=schema)
    pages = [whole.slice(start, per_page) for start in range(0, len(rows), per_page)]
    return pa.Table.from_batches(pages, schema=schema)


def _plain(kind: pa.DataType) -> pa.DataType:
    return pa.string() if kind == pa.json_() else kind


def load_of(endpoint: Endpoint, rows: Sequence[Row], profile: str = "default") -> Load:
    table = table_of(endpoint, rows)
    return load_of_rows(endpoint, table, profile=profile)


def stored(lake: Lake, endpoint: Endpoint) -> Counter[Row]:
    listed = ", ".join(map(quoted, endpoint.key))
    return Counter(lake.rows(f"select {listed} from raw.{endpoint.name}"))


# --- hashes ---------------------------------------------------------------------------------


def test_equal_keys_hash_alike_whatever_else_their_batch_holds():
    texts = ["", "a", "\0", "12345678", "123456789", "é" * 20, "a" * 300, "", "12345678"]
    ids = [0, -1, 7, 2**62, 7, 7, -(2**63), 0, 2**62]
    rows = [(n, i, text) for n, (i, text) in enumerate(zip(ids, texts, strict=True))]
    together = key_hashes(table_of(LOCATIONS, rows), LOCATIONS.key)

    alone = [key_hashes(table_of(LOCATIONS, [row]), LOCATIONS.key)[0] for row in rows]
    sliced = key_hashes(table_of(LOCATIONS, [(9, 9, "x"), *rows])[1:], LOCATIONS.key)

    assert list(together) == alone == list(sliced)
    assert len({*alone}) == len({row[1:] for row in rows})


def test_keys_that_look_alike_hash_differently():
    uuids = [(0, f"{n:08x}-398b-11f1-bc0b-316bd0349adf") for n in range(5_000)]
    ids = [(0, n, "") for n in range(5_000)]

    assert len({*key_hashes(table_of(ALERTS, uuids), ALERTS.key)}) == len(uuids)
    assert len({*key_hashes(table_of(LOCATIONS, ids), LOCATIONS.key)}) == len(ids)


# --- doubts ---------------------------------------------------------------------------------


def doubtful_in(found: Doubts | None) -> list[int] | None:
    return None if found is None else [int(n) for n in np.flatnonzero(found.mask)]


@pytest.mark.usefixtures("any_batch")
def test_only_repeated_nameless_and_earlier_rows_are_doubtful(lake_path):
    rows = [(0, "a"), (30, "b"), (1, "c"), (1, "c"), (2, None), (61, "d"), (60, "e")]
    keys = KnownKeys()
    with open_lake(lake_path) as lake:
        commit(lake, load_of(ALERTS, [(30, "x"), (60, "y")]))
        keys.begin()
        with lake.single_snapshot():
            found = keys.doubts(lake, ALERTS, table_of(ALERTS, rows))

    assert doubtful_in(found) == [1, 2, 3, 4, 6]
    assert found is not None
    assert found.bounds == (NOON + timedelta(minutes=30), NOON + timedelta(minutes=60))


@pytest.mark.usefixtures("any_batch")
def test_a_table_that_another_process_has_changed_is_searched_from_then_on(lake_path):
    keys = KnownKeys()
    with open_lake(lake_path) as lake, open_lake(lake_path) as other:
        commit(lake, load_of(ALERTS, [(1, "a")]), keys=keys)
        commit(other, load_of(ACTIVITY_LOGS, [(1, "a")]))
        keys.begin()
        with lake.single_snapshot():
            unchanged = keys.doubts(lake, ALERTS, table_of(ALERTS, [(2, "b"), (1, "a")]))
        commit(other, load_of(ALERTS, [(3, "c")]))
        keys.begin()
        with lake.single_snapshot():
            changed = keys.doubts(lake, ALERTS, table_of(ALERTS, [(3, "c")]))

    assert doubtful_in(unchanged) == [1]
    assert changed is None


@pytest.mark.usefixtures("any_batch")
def test_a_batch_with_very_many_doubtful_places_is_searched_for_whole(lake_path, monkeypatch):
    monkeypatch.setattr(known_keys, "MOST_RUNS", 4)
    with open_lake(lake_path) as lake:
        commit(lake, load_of(ALERTS, [(0, "a"), (9, "z")]))
        found = []
        for rows in (
            [(1, "b"), (20, "c"), (2, "d"), (21, "e")],
            [(n % 2 * 30, str(n)) for n in range(5)],
        ):
            keys = KnownKeys()
            keys.begin()
            with lake.single_snapshot():
                found.append(keys.doubts(lake, ALERTS, table_of(ALERTS, rows)))

    assert list(map(doubtful_in, found)) == [[0, 2], None]


def test_a_batch_is_divided_into_its_new_and_its_doubtful_rows_in_their_order():
    rows = table_of(ALERTS, [(n, str(n)) for n in range(7)])

    def divided(doubtful: set[int]) -> list[list[str]]:
        doubts = Doubts(np.array([n in doubtful for n in range(7)]), None)
        return [part["created_at_timeuuid"].to_pylist() for part in doubts.divide(rows)]

    assert divided({0, 3, 4}) == [["1", "2", "5", "6"], ["0", "3", "4"]]
    assert divided({2, 6}) == [["0", "1", "3", "4", "5"], ["2", "6"]]
    assert divided(set()) == [["0", "1", "2", "3", "4", "5", "6"], []]
    assert divided({*range(7)}) == [[], ["0", "1", "2", "3", "4", "5", "6"]]


@pytest.mark.usefixtures("any_batch")
def test_hashes_take_no_more_memory_than_allowed(lake_path, monkeypatch):
    monkeypatch.setattr(known_keys, "MOST_KEYS", 2)
    keys = KnownKeys()
    with open_lake(lake_path) as lake:
        for number in range(4):
            commit(lake, load_of(ALERTS, [(number, str(number))]), keys=keys)
        again = commit(lake, load_of(ALERTS, [(n, str(n)) for n in range(5)]), keys=keys)

    assert again.added == 1


# --- the promise, against a plain truth -----------------------------------------------------


class Truth:
    """What the table must hold: each key once; a key with a null is equal to no other commit's."""

    def __init__(self) -> None:
        self.keys: set[Row] = set()
        self.nameless: Counter[Row] = Counter()

    def append(self, rows: Sequence[Row]) -> None:
        keys = {tuple(key) for _, *key in rows}
        self.keys |= {key for key in keys if None not in key}
        self.nameless.update(key for key in keys if None in key)

    @property
    def content(self) -> Counter[Row]:
        return Counter(self.keys) + self.nameless


class Draw:
    """Random batches: repeats within and across them, nulls, and times around the table's."""

    def __init__(self, endpoint: Endpoint, chance: random.Random) -> None:
        self._endpoint, self._chance = endpoint, chance
        self._minutes: dict[Row, float] = {}

    def batch(self) -> list[Row]:
        return [self._row() for _ in range(self._chance.randrange(1, 12))]

    def _row(self) -> Row:
        chance, known = self._chance, self._minutes
        if known and chance.random() < 0.3:
            key = chance.choice([*known])
        else:
            key = tuple(self._member(name) for name in self._endpoint.key)
        # A record keeps its time, but some responses give it in whole seconds.
        minute = known.setdefault(key, self._minute()) + chance.choice((0, 0, 0.01))
        return (minute, *key)

    def _minute(self) -> float:
        chance, first, last = (
            self._chance,
            min(self._minutes.values(), default=0),
            max(self._minutes.values(), default=0),
        )
        edges = (first - 0.01, first, last, last + 0.01)
        ahead, behind = last + chance.uniform(1, 9), first - chance.uniform(1, 9)
        return chance.choice((*edges, ahead, ahead, ahead, behind, chance.uniform(first, last)))

    def _member(self, name: str) -> Any:
        chance = self._chance
        if chance.random() < 0.03:
            return None
        if schema_of(self._endpoint).field(name).type == pa.int64():
            return chance.choice((0, 1, chance.randrange(-(2**63), 2**63)))
        return chance.choice(
            ("", "a", f"{chance.getrandbits(128):032x}", "é" * chance.randrange(9))
        )


BROKEN = {
    "rolled back": (commits, "set_watermarks"),
    "lost": (KnownKeys, "note_commit"),  # the commit succeeded, and its answer was lost
}
RARELY = (*BROKEN, "elsewhere", "gone", "other", "other")


def fail(*_: Any) -> None:
    raise LakeError("no space left")


@pytest.fixture
def two_writers(lake_path: Path) -> Iterator[tuple[Lake, Lake]]:
    with open_lake(lake_path) as lake, open_lake(lake_path) as other:
        yield lake, other


@pytest.mark.proof
@pytest.mark.usefixtures("any_batch")
@pytest.mark.parametrize("endpoint", [ALERTS, LOCATIONS, ACTIVITY_LOGS], ids=lambda e: e.name)
@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.release) for n in (1, 2))])
def test_each_key_is_stored_once_whatever_was_appended_before_and_in_between(
    two_writers, monkeypatch, endpoint, seed
):
    (lake, other), chance, truth = two_writers, random.Random(seed), Truth()
    draw, keys, decided = Draw(endpoint, chance), KnownKeys(), Counter[str]()
    decide = KnownKeys.doubts

    def counted(self: KnownKeys, *loading: Any) -> Doubts | None:
        found = decide(self, *loading)
        decided["searched" if found is None else "new" if not found.mask.all() else "doubtful"] += 1
        return found

    monkeypatch.setattr(KnownKeys, "doubts", counted)
    for _ in range(30):
        rows, profile = draw.batch(), chance.choice(("one", "two"))
        load = load_of(endpoint, rows, profile)
        what = chance.choice([*["append"] * 12, "run", "run", "run", *RARELY])
        if what in BROKEN:
            with monkeypatch.context() as patch, suppress(LakeError):
                patch.setattr(*BROKEN[what], fail)
                commit(lake, load, keys=keys)
                pytest.fail("the commit reported no error")
            if what == "lost":
                truth.append(rows)
        elif what == "elsewhere":  # another table changes
            commit_proofs(RunState(other), [StreamProof(endpoint, profile, load.proof)])
        elif what == "gone" and truth.keys:
            key = chance.choice([*truth.keys])
            same = " and ".join(f"{quoted(name)} = ?" for name in endpoint.key)
            other.execute(f"delete from raw.{endpoint.name} where {same}", list(key))
            truth.keys.remove(key)
        elif what == "other":
            commit(other, load)
            truth.append(rows)
        else:
            keys = KnownKeys() if what == "run" else keys
            commit(lake, load, keys=keys, only_changes=chance.random() < 0.5)
            truth.append(rows)

        assert stored(lake, endpoint) == truth.content
    assert min(decided["new"], decided["doubtful"]) > 0


@pytest.mark.proof
def test_the_range_of_a_table_includes_each_row_whatever_was_done_to_it(lake_path):
    with open_lake(lake_path) as lake:
        for minutes in ([5], [*range(-40, 40)], [90], [*range(100, 150)]):
            commit(lake, load_of(ALERTS, [(n, str(n)) for n in minutes]))
        lake.execute("delete from raw.alerts where created_at_timeuuid in ('5', '39', '149')")
        lake.execute("update raw.alerts set friendly_info = 'x' where created_at_timeuuid = '90'")
        lake.execute("call ducklake_flush_inlined_data('lake')")
        lake.execute("call ducklake_rewrite_data_files('lake', 'alerts', schema => 'raw')")
        lake.execute("call ducklake_merge_adjacent_files('lake')")
        commit(lake, load_of(ALERTS, [(-41, "-41"), (148.5, "148.5")]))
        [(first, last)] = lake.rows("select min(created_at), max(created_at) from raw.alerts")
        low, high = time_range(lake, "alerts", "created_at") or (None, None)

    assert low <= first
    assert high >= last
