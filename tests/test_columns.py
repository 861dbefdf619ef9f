"""The vocabulary: one name, one meaning, one type, wherever a field appears."""

from collections import defaultdict

import pytest

from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.columns import VOCABULARY, Column, Kind, columns_of
from tests.support.cases import every_table


def entries_of(endpoint, column) -> list[str]:
    """Return the vocabulary's names for a column, the endpoint's own first."""
    if column.field.startswith("relationships."):
        return ["relations" if column.kind is Kind.IDS else "relation"]
    member = column.field.removeprefix("attributes.")
    shared = ["v3.id"] if member == "id" else []
    return [f"{endpoint.name}.{member}", *shared, member]


def test_a_column_name_has_one_type_and_unit_on_every_endpoint():
    found = defaultdict(set)
    for endpoint in ENDPOINTS.values():
        for column in endpoint.columns:
            own, *_ = entries_of(endpoint, column)
            if own not in VOCABULARY and column.name != "id":
                found[column.name].add((column.sql_type, column.unit))

    assert {name: kinds for name, kinds in found.items() if len(kinds) > 1} == {}


def test_every_entry_of_the_vocabulary_is_used():
    used = {
        entry
        for endpoint in ENDPOINTS.values()
        for column in endpoint.columns
        for entry in entries_of(endpoint, column)
    }

    assert set(VOCABULARY) - used == set()


def test_an_endpoints_own_entry_takes_precedence_over_the_general_one():
    [own] = columns_of("accounts", ["account"])
    [plain] = columns_of("routers", ["account"])

    assert own.meaning == VOCABULARY["accounts.account"].meaning
    assert plain.meaning == VOCABULARY["account"].meaning
    assert own.meaning != plain.meaning


def test_an_undescribed_field_is_refused():
    with pytest.raises(KeyError, match="no_such_field"):
        columns_of("alerts", ["created_at", "no_such_field"])


@pytest.mark.parametrize(
    ("field", "kind", "name", "path"),
    [
        ("action.type_name", Kind.TEXT, "action_type_name", ("action", "type_name")),
        ("router", Kind.RELATION, "router_id", ("router",)),
        ("router_id", Kind.ID, "router_id", ("router_id",)),
        ("created_at", Kind.TIME, "created_at", ("created_at",)),
    ],
)
def test_a_columns_name_is_derived_from_its_field(field, kind, name, path):
    column = Column(field=field, kind=kind, meaning="Anything.")

    assert (column.name, column.path) == (name, path)


@every_table
def test_every_column_has_a_description(endpoint):
    for column in endpoint.columns:
        assert column.meaning.endswith("."), column.name
        assert column.unit is None or column.kind in {Kind.INTEGER, Kind.REAL}
        assert not column.name.startswith("_")  # those are the lake's own


@every_table
def test_no_two_columns_of_a_table_share_a_name(endpoint):
    names = [column.name for column in endpoint.columns]

    assert len(names) == len(set(names))
    assert not {"account_profile", "valid_from", "valid_to"} & set(names)
