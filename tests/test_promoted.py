"""A member that the service added becomes a column, including its earlier values."""

import json
import pkgutil
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleetlake.decoding.arrow import read_page
from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.columns import Kind
from fleetlake.endpoints.model import Endpoint, Mode
from fleetlake.errors import StreamBusy, UsageError
from fleetlake.lake import Lake, open_lake
from fleetlake.lake.evolution.member_values import format_path
from fleetlake.lake.evolution.promote import demote, members, promote, with_promoted
from fleetlake.lake.loads import Committed
from fleetlake.lake.locks import stream_lock
from tests.support.loads import commit, load_of_rows
from tests.support.sim import NOW, Sim, copied, loaded_sim
from tests.test_load import assert_complete
from tests.test_operations import Rewriting
from tests.test_records import a_page, a_record

NEW = "service_tier"  # the member that the scenario adds to every record
DRIFT: dict[str, Any] = {"scenario": "schema-drift", "days": 1}


@pytest.fixture(scope="module")
def drifted(empty_lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Sim:
    """Return a service that added a member to its records; two endpoints are loaded."""
    return loaded_sim(tmp_path_factory.mktemp("drifted"), empty_lake, "groups", "alerts", **DRIFT)


@pytest.fixture
def drifting(drifted: Sim, tmp_path: Path) -> Sim:
    """Return such a service with this test's own lake."""
    return copied(drifted, tmp_path, **DRIFT)


def rows(sim: Sim, sql: str) -> list[tuple[Any, ...]]:
    with open_lake(sim.settings().lake, read_only=True) as lake:
        return lake.rows(sql)


def promoted(sim: Sim, endpoint: str, member: str = NEW, kind: Kind | None = None) -> int:
    with open_lake(sim.settings().lake) as lake:
        return promote(lake, ENDPOINTS[endpoint], member, kind)[1]


@pytest.mark.parametrize("endpoint", [pytest.param("groups", marks=pytest.mark.proof), "alerts"])
def test_a_promoted_member_is_a_column_with_the_values_that_the_service_sent(
    drifting: Sim, endpoint: str
) -> None:
    kept = rows(drifting, f"select _extra->>'$.{NEW}' from raw.{endpoint} order by all")

    filled = promoted(drifting, endpoint)

    assert rows(drifting, f"select {NEW} from raw.{endpoint} order by all") == kept
    assert filled == len([value for (value,) in kept if value is not None]) > 0
    [(left,)] = rows(
        drifting, f"select count(*) from raw.{endpoint} where json_exists(_extra, '$.{NEW}')"
    )
    assert left == 0


@pytest.mark.proof
@pytest.mark.parametrize("endpoint", ["groups", "alerts"])
def test_later_loads_fill_the_column_and_see_no_change_in_existing_rows(
    drifting: Sim, endpoint: str
) -> None:
    promoted(drifting, endpoint)

    [again] = drifting.ingest(endpoint)
    drifting.advance(86_400)
    drifting.ingest(endpoint)

    [(empty,)] = rows(drifting, f"select count(*) from raw.{endpoint} where {NEW} is null")
    assert (again.added, again.changed) == (0, 0)
    assert empty == 0
    if endpoint == "groups":
        assert_complete(drifting, ENDPOINTS[endpoint])


def test_a_nested_member_can_be_promoted_alone(drifting: Sim) -> None:
    sent = rows(drifting, f"select (_extra->>'$.{NEW}.level')::bigint from raw.groups order by id")

    filled = promoted(drifting, "groups", f"{NEW}.level")

    assert rows(drifting, f"select {NEW}_level from raw.groups order by id") == sent
    assert filled == len(sent)
    [(tiers,)] = rows(drifting, f"select count(_extra->>'$.{NEW}.name') from raw.groups")
    assert tiers == len(sent)
    [again] = drifting.ingest("groups")
    assert (again.added, again.changed) == (0, 0)


def test_members_are_listed_with_an_example_until_they_are_promoted(drifting: Sim) -> None:
    with open_lake(drifting.settings().lake, read_only=True) as lake:
        [before] = [m for m in members(lake, "alerts") if m.member == NEW]
    promoted(drifting, "alerts")
    with open_lake(drifting.settings().lake, read_only=True) as lake:
        [after] = [m for m in members(lake, "alerts") if m.member == NEW]

    assert before.example
    assert (before.kind, after.kind) == (None, Kind.JSON)


def test_values_that_do_not_fit_the_chosen_type_stay_in_extra(drifting: Sim) -> None:
    before = rows(drifting, "select _extra from raw.groups order by id")

    filled = promoted(drifting, "groups", kind=Kind.INTEGER)

    assert filled == 0
    assert rows(drifting, "select _extra from raw.groups order by id") == before


@pytest.mark.proof
@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["1", "-2"], Kind.INTEGER),
        (["1", "2.5"], Kind.REAL),
        (["true", "false"], Kind.FLAG),
        (['"2026-06-15T12:00:00Z"'], Kind.TIME),
        (['"2026-06-15T12:00:00Z"', '"soon"'], Kind.TEXT),
        (["1", "true"], Kind.JSON),
        (['"one"', r'"a NUL: \u0000"'], Kind.JSON),
        (['{"a": 1}'], Kind.JSON),
        (["null"], Kind.JSON),
        (["null", "7"], Kind.INTEGER),
    ],
)
def test_the_type_is_the_narrowest_that_fits_every_value(
    long_lake: Lake, texts: list[str], kind: Kind
) -> None:
    try:
        for number, text in enumerate(texts):
            long_lake.execute(
                "insert into raw.products (id, _extra) values (?, ?)",
                [number, f'{{"new": {text}, "other": 1}}'],
            )
        long_lake.execute(
            "insert into meta.schema_drift values ('default', 'products', 'new', ?, 'x', now())",
            [texts[0]],
        )

        column, filled = promote(long_lake, ENDPOINTS["products"], "new")

        held = "select count(*) from raw.products where _extra->>'$.other' = '1'"
        [(others,)] = long_lake.rows(held)
        demote(long_lake, ENDPOINTS["products"], "new")
    finally:
        long_lake.execute("delete from raw.products; delete from meta.schema_drift")
    assert column.kind is kind
    assert (filled, others) == (len(texts), len(texts))


def test_an_unseen_member_is_refused_with_the_names_that_were_seen(drifting: Sim) -> None:
    with pytest.raises(UsageError, match="had a member 'nonsense'") as refusal:
        promoted(drifting, "alerts", "nonsense")

    assert NEW in refusal.value.remedy


def test_a_member_is_promoted_once(drifting: Sim) -> None:
    promoted(drifting, "alerts")

    with pytest.raises(UsageError, match="already has a column service_tier"):
        promoted(drifting, "alerts")


@pytest.mark.proof
def test_a_demoted_member_returns_to_extra_with_every_value(drifting: Sim) -> None:
    sent = rows(drifting, "select id, _extra from raw.groups order by all")
    promoted(drifting, "groups")

    with open_lake(drifting.settings().lake) as lake:
        column, returned = demote(lake, ENDPOINTS["groups"], NEW)

    assert (column.name, returned) == (NEW, len(sent))
    assert rows(drifting, "select id, _extra from raw.groups order by all") == sent
    assert NEW not in columns_of(drifting, "groups")
    [again] = drifting.ingest("groups")
    assert (again.added, again.changed, again.error) == (0, 0, None)


def test_part_of_a_member_returns_to_its_place(drifting: Sim) -> None:
    sent = [json.loads(e) for (e,) in rows(drifting, "select _extra from raw.alerts order by all")]
    promoted(drifting, "alerts", f"{NEW}.level")

    with open_lake(drifting.settings().lake) as lake:
        demote(lake, ENDPOINTS["alerts"], f"{NEW}_level")

    back = [json.loads(e) for (e,) in rows(drifting, "select _extra from raw.alerts")]
    assert sorted(map(str, map(sorted_items, back))) == sorted(map(str, map(sorted_items, sent)))


def test_a_member_that_was_not_promoted_cannot_be_demoted(drifting: Sim) -> None:
    promoted(drifting, "groups")

    with (
        open_lake(drifting.settings().lake) as lake,
        pytest.raises(UsageError, match="'nonsense' of groups was not promoted") as refusal,
    ):
        demote(lake, ENDPOINTS["groups"], "nonsense")

    assert NEW in refusal.value.remedy


def test_a_stream_that_is_being_loaded_is_neither_promoted_nor_demoted(drifting: Sim) -> None:
    promoted(drifting, "groups")
    with (
        stream_lock(drifting.settings().lake, "groups"),
        open_lake(drifting.settings().lake) as lake,
        pytest.raises(StreamBusy),
    ):
        demote(lake, ENDPOINTS["groups"], NEW)


def test_a_load_that_began_before_a_promotion_fills_the_column(
    drifting: Sim, monkeypatch: pytest.MonkeyPatch
) -> None:
    def promote_meanwhile(*_: Any) -> None:
        promoted(drifting, "alerts")

    monkeypatch.setattr(
        "fleetlake.loading.load._prepare",
        after(promote_meanwhile, "fleetlake.loading.load._prepare"),
    )
    drifting.advance(86_400)
    [outcome] = drifting.ingest("alerts")

    assert (outcome.error, outcome.added > 0) == (None, True)
    [(empty,)] = rows(drifting, f"select count(*) from raw.alerts where {NEW} is null")
    assert empty == 0


def test_a_member_with_a_dot_and_a_path_into_an_object_are_not_confused(sim: Sim) -> None:
    sim.ingest(
        "products", transport=Rewriting(sim, {'"name":': '"a":{"b":1,"c":2},"a.b":"own","name":'})
    )
    with open_lake(sim.settings().lake) as lake:
        with pytest.raises(UsageError, match="may be a member") as refusal:
            promote(lake, ENDPOINTS["products"], "a.b")
        own, _ = promote(lake, ENDPOINTS["products"], '"a.b"')
        inner, _ = promote(lake, ENDPOINTS["products"], 'a."b"')

        found = lake.rows(f"select distinct {own.name}, {inner.name}, _extra from raw.products")

    assert '"a.b", a.b' in refusal.value.remedy
    assert (own.name, inner.name) == ("a_b", "a_b_2")
    assert found == [("own", 1, '{"a":{"c":2}}')]


@pytest.mark.parametrize(("first", "second"), [(NEW, f"{NEW}.level"), (f"{NEW}.level", NEW)])
def test_a_member_is_not_promoted_both_whole_and_in_part(
    drifting: Sim, first: str, second: str
) -> None:
    promoted(drifting, "alerts", first)

    with pytest.raises(UsageError, match="cannot be a column"):
        promoted(drifting, "alerts", second)


HOSTILE = [
    *["", " ", ".", "a.b", "a", "A", "_row", "_extra", "_load_id", "account_profile", "valid_from"],
    *[
        "valid_to",
        "o'brien",
        'a"b',
        "a\\b",
        "\x00",
        "a\nb",
        "$",
        "$.a",
        "[*]",
        "$[*]",
        "*",
        "🛰",
        "é",
    ],
    *[
        "select",
        "order",
        "5g",
        "signal-strength",
        "x" * 2000,
        "rowid",
        "__proto__",
        "class",
        "t",
        "b",
    ],
    *['x" bigint); drop schema raw cascade; --', "'; drop table raw.users; --", "\u202e", "batch"],
]
values = st.sampled_from(
    [
        st.integers(-(2**70), 2**70),
        st.floats(allow_nan=False, allow_infinity=False),
        st.booleans(),
        st.text(max_size=10).filter(lambda text: text.lower() != "null"),
        st.integers(0, 2**32).map(lambda seconds: f"{datetime.fromtimestamp(seconds, UTC):%FT%TZ}"),
        st.recursive(
            st.none() | st.integers(0, 9) | st.text(max_size=3),
            lambda inner: (
                st.lists(inner, max_size=2)
                | st.dictionaries(st.sampled_from(HOSTILE), inner, max_size=2)
            ),
            max_leaves=4,
        ).filter(lambda value: value is not None),
    ]
)


@pytest.fixture(scope="module")
def long_lake(empty_lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """Return an open lake that many examples use in turn."""
    path = tmp_path_factory.mktemp("hostile") / "lake"
    shutil.copytree(empty_lake, path)
    with open_lake(path, threads=1) as lake:
        lake.execute("create table marts.bystander as select 42 as answer")
        yield lake


@pytest.mark.release
@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(["products", "net_device_metrics", "alerts"]),
    names=st.lists(
        st.sampled_from(HOSTILE) | st.text(max_size=8), min_size=1, max_size=4, unique=True
    ),
    data=st.data(),
)
def test_members_of_any_name_keep_every_value_from_promotion_to_demotion(
    long_lake: Lake, name: str, names: list[str], data: st.DataObject
) -> None:
    endpoint = ENDPOINTS[name]
    names = [member for member in names if member not in {c.path[0] for c in endpoint.columns}]
    kinds = {member: data.draw(values) for member in names}
    sent = [{member: data.draw(kinds[member]) for member in names} for _ in range(3)]
    before = shape_of(long_lake, without=name)

    loaded(long_lake, endpoint, sent[:2])
    columns = {member: promote(long_lake, endpoint, format_path([member]))[0] for member in names}
    again = loaded(long_lake, endpoint, sent[:2])
    loaded(long_lake, endpoint, sent)
    held = [kept(long_lake, endpoint, number) for number in range(3)]
    for member in names:
        demote(long_lake, endpoint, format_path([member]))
    back = [json.loads(kept(long_lake, endpoint, number)["_extra"] or "{}") for number in range(3)]

    try:
        assert again == Committed(0, 0, 0)
        for row, wanted, left in zip(held, sent, back, strict=True):
            extra = json.loads(row["_extra"] or "{}")
            for member, value in wanted.items():
                column = columns[member]
                found = row[column.name]
                found = json.loads(found) if column.kind is Kind.JSON and found else found
                assert alike(extra.get(member, found), value)
                assert alike(left[member], value)
        assert shape_of(long_lake, without=name) == before
        assert not long_lake.rows("select * from meta.promoted")
    finally:
        long_lake.execute(f"delete from raw.{name}")


def loaded(lake: Lake, endpoint: Endpoint, extras: list[dict[str, Any]]) -> Committed:
    """Load records with these members beside those that the endpoint declares."""
    records = [a_record(endpoint, number)[0] | extra for number, extra in enumerate(extras)]
    [endpoint] = with_promoted(lake, [endpoint])
    page = read_page(endpoint, a_page(endpoint, records))
    assert not page.rejects
    rows = pa.Table.from_batches([page.rows])
    return commit(lake, load_of_rows(endpoint, rows, seen_at=NOW), only_changes=True)


def kept(lake: Lake, endpoint: Endpoint, number: int) -> dict[str, Any]:
    """Return a record as the lake stores it."""
    key = endpoint.key[0]
    _, row = a_record(endpoint, number)
    current = "and valid_to is null" if endpoint.mode is Mode.HISTORY else ""
    cursor = lake.execute(
        f"select * from raw.{endpoint.name} where {key}::varchar = ? {current}", [str(row[key])]
    )
    [found] = cursor.fetchall()
    return dict(zip([column[0] for column in cursor.description or ()], found, strict=True))


def shape_of(lake: Lake, *, without: str) -> list[tuple[Any, ...]]:
    """Return every table with its columns, and the rows of tables that are not loaded here."""
    columns = lake.rows(
        "select schema_name, table_name, column_name, data_type from duckdb_columns() "
        "where database_name = 'lake' order by all"
    )
    others = [endpoint for endpoint in ENDPOINTS if endpoint != without]
    counts = lake.rows(" union all ".join(f"select count(*) from raw.{one}" for one in others))
    return [*columns, *counts, *lake.rows("from marts.bystander")]


def alike(found: Any, sent: Any) -> bool:
    """Return whether two values are equal; a time may have another format."""
    if isinstance(found, datetime):
        return found == datetime.fromisoformat(sent)
    if isinstance(found, str) and isinstance(sent, str) and found != sent:
        return datetime.fromisoformat(found) == datetime.fromisoformat(sent)
    return bool(found == sent)


def sorted_items(members: Any) -> Any:
    """Return members in sorted order, nested members too."""
    if not isinstance(members, dict):
        return members
    return sorted((name, sorted_items(value)) for name, value in members.items())


def columns_of(sim: Sim, endpoint: str) -> set[str]:
    return {name for (name,) in rows(sim, f"select column_name from (describe raw.{endpoint})")}


def after(more: Any, place: str) -> Any:
    """Return a function that calls the real one, then `more`, and returns the real result."""
    real = pkgutil.resolve_name(place)

    def both(*arguments: Any, **named: Any) -> Any:
        done = real(*arguments, **named)
        more(*arguments)
        return done

    return both
