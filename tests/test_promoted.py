"""A member that the service added becomes a column, with all that came before."""

from typing import Any

import pytest

from fleetlake.columns import Kind
from fleetlake.endpoints import ENDPOINTS
from fleetlake.errors import UsageError
from fleetlake.lake import open_lake
from fleetlake.lake.promoted import members, promote
from fleetlake.status import stream_statuses
from tests.conftest import NOW, Sim
from tests.test_load import assert_complete

NEW = "service_tier"  # the member that the scenario adds to every record


@pytest.fixture
def drifting(make_sim: Any) -> Sim:
    """Return a service that has added a member to its records; two endpoints are loaded."""
    sim: Sim = make_sim(scenario="schema-drift", days=1)
    sim.ingest("groups", "alerts")
    return sim


def rows(sim: Sim, sql: str) -> list[tuple[Any, ...]]:
    with open_lake(sim.settings().lake, read_only=True) as lake:
        return lake.rows(sql)


def promoted(sim: Sim, endpoint: str, member: str = NEW, kind: Kind | None = None) -> int:
    with open_lake(sim.settings().lake) as lake:
        return promote(lake, ENDPOINTS[endpoint], member, kind)[1]


@pytest.mark.parametrize("endpoint", ["groups", "alerts"])
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


@pytest.mark.parametrize("endpoint", ["groups", "alerts"])
def test_later_loads_fill_the_column_and_see_no_change_in_what_was_there(
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


def test_a_member_within_a_member_can_be_promoted_alone(drifting: Sim) -> None:
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


def test_status_counts_the_members_that_were_not_promoted(drifting: Sim) -> None:
    def waiting() -> int:
        with open_lake(drifting.settings().lake, read_only=True) as lake:
            found = stream_statuses(lake, now=NOW, calls_per_minute=450)
        return next(stream.drifted for stream in found if stream.endpoint == "alerts")

    before = waiting()
    promoted(drifting, "alerts")

    assert before > 0
    assert waiting() == before - 1


def test_values_that_the_chosen_type_does_not_take_stay_where_they_were(drifting: Sim) -> None:
    before = rows(drifting, "select _extra from raw.groups order by id")

    filled = promoted(drifting, "groups", kind=Kind.INTEGER)

    assert filled == 0
    assert rows(drifting, "select _extra from raw.groups order by id") == before


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["1", "-2"], Kind.INTEGER),
        (["1", "2.5"], Kind.REAL),
        (["true", "false"], Kind.FLAG),
        (['"2026-06-15T12:00:00Z"'], Kind.TIME),
        (['"2026-06-15T12:00:00Z"', '"soon"'], Kind.TEXT),
        (["1", "true"], Kind.JSON),
        (['{"a": 1}'], Kind.JSON),
        (["null"], Kind.JSON),
        (["null", "7"], Kind.INTEGER),
    ],
)
def test_the_type_is_the_narrowest_that_takes_every_value(
    sim: Sim, texts: list[str], kind: Kind
) -> None:
    sim.ingest("products")
    with open_lake(sim.settings().lake) as lake:
        for number, text in enumerate(texts):
            lake.execute(
                "insert into raw.products (id, _extra) values (?, ?)",
                [number, f'{{"new": {text}, "other": 1}}'],
            )
        lake.execute(
            "insert into meta.schema_drift values ('default', 'products', 'new', ?, 'x', now())",
            [texts[0]],
        )

        column, filled = promote(lake, ENDPOINTS["products"], "new")

        [(others,)] = lake.rows("select count(*) from raw.products where _extra->>'$.other' = '1'")
    assert column.kind is kind
    assert (filled, others) == (len(texts), len(texts))


def test_a_member_that_never_came_is_refused_with_those_that_did(drifting: Sim) -> None:
    with pytest.raises(UsageError, match="never had a member 'nonsense'") as refusal:
        promoted(drifting, "alerts", "nonsense")

    assert NEW in refusal.value.remedy


def test_a_member_is_promoted_once(drifting: Sim) -> None:
    promoted(drifting, "alerts")

    with pytest.raises(UsageError, match="has a column service_tier already"):
        promoted(drifting, "alerts")
