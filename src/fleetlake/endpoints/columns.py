"""Columns of raw tables: a field of the service, what it means, and how it is stored.

A nested member becomes one column joined with underscores (`action.id` is `action_id`). A
relation is a URL on the wire and becomes `<thing>_id`.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from fleetlake.endpoints.vocabulary import VOCABULARY, Kind, Meaning, Privacy

__all__ = ["SQL_TYPES", "Column", "Kind", "Privacy", "attributes_of", "columns_of"]


SQL_TYPES = {
    Kind.ID: "BIGINT",
    Kind.RELATION: "BIGINT",
    Kind.INTEGER: "BIGINT",
    Kind.REAL: "DOUBLE",
    Kind.FLAG: "BOOLEAN",
    Kind.TEXT: "VARCHAR",
    Kind.TIME: "TIMESTAMP WITH TIME ZONE",
    Kind.EPOCH_S: "TIMESTAMP WITH TIME ZONE",
    Kind.EPOCH_MS: "TIMESTAMP WITH TIME ZONE",
    Kind.TIMEUUID: "VARCHAR",
    Kind.IDS: "JSON",
    Kind.JSON: "JSON",
}


RESERVED = frozenset(
    {
        # added to each record by the lake (names that start with an underscore are reserved too)
        *("account_profile", "loaded_at", "valid_from", "valid_to"),
        # added to the rows of a table by DuckLake, exports and mirrors
        *("rowid", "row_id", "snapshot_id", "begin_snapshot", "end_snapshot", "change_type"),
        *("is_arrival", "filename", "file_index", "file_row_number"),
        *("mirror_day", "mirror_version"),
    }
)
"""Column names that no field can have."""


@dataclass(frozen=True, kw_only=True)
class Column(Meaning):
    """One column of a raw table and the field it is read from.

    `members` and `stored_as` are set if path and name cannot be derived from the field: a promoted
    member may have any name.
    """

    field: str
    members: tuple[str, ...] | None = None
    stored_as: str | None = None

    @property
    def name(self) -> str:
        """The column's name in the lake.

        JSON:API wraps every record the same way; the wrapping is not part of a name.
        """
        if self.stored_as is not None:
            return self.stored_as
        if self.field.startswith("relationships."):
            return f"{self.path[1]}_ids" if self.kind is Kind.IDS else f"{self.path[1]}_id"
        joined = self.field.removeprefix("attributes.").replace(".", "_")
        return f"{joined}_id" if self.kind is Kind.RELATION else joined

    @property
    def path(self) -> tuple[str, ...]:
        """The members that lead from the record to the value."""
        return self.members or tuple(self.field.split("."))

    @property
    def sql_type(self) -> str:
        """The column's type in DuckDB."""
        return SQL_TYPES[self.kind]


def columns_of(endpoint: str, fields: Iterable[str]) -> tuple[Column, ...]:
    """Return the columns for an endpoint's field names.

    Raises: KeyError naming a field that is not in the vocabulary.

    >>> [c.name for c in columns_of("alerts", ["created_at", "router", "type"])]
    ['created_at', 'router_id', 'type']
    """
    return tuple(_column(endpoint, field, field) for field in fields)


def attributes_of(
    endpoint: str, attributes: Iterable[str], related: Iterable[str], many: Iterable[str] = ()
) -> tuple[Column, ...]:
    """Return the columns of a JSON:API record: id, attributes, relationships, address.

    `related` names the to-one relationships, `many` the to-many ones.

    >>> [c.name for c in attributes_of("private_cellular_radios", ["name"], ["network"])]
    ['id', 'name', 'network_id', 'links_self']
    """
    return (
        _column("v3", "id", "id"),
        *(_column(endpoint, name, f"attributes.{name}") for name in attributes),
        *(_column(endpoint, "relation", f"relationships.{n}.data.id") for n in related),
        *(_column(endpoint, "relations", f"relationships.{n}.data") for n in many),
        _column("v3", "links.self", "links.self"),
    )


def _column(endpoint: str, entry: str, field: str) -> Column:
    meaning = VOCABULARY.get(f"{endpoint}.{entry}") or VOCABULARY[entry]
    return Column(field=field, **vars(meaning))
