"""The column vocabulary: the meaning of each field of the service, written once.

`vocabulary.csv` has a row per field; `unit` and `privacy` may be empty. `trait` is `untracked` or
`foreign_url`, or empty: see `Meaning`. A field with the same meaning on several endpoints has one
row, so a quantity has the same type, unit and column name everywhere. A field with a meaning of its
own on one endpoint has a row `endpoint.field`, which takes precedence. A nested member is written
with dots (`action.id`).
"""

from dataclasses import dataclass
from enum import StrEnum

from fleetlake.text.tables_beside import rows_beside


class Kind(StrEnum):
    """How a value is sent, and how it is stored."""

    ID = "id"  # decimal string or number -> BIGINT
    RELATION = "relation"  # URL, id or inline object -> BIGINT in <thing>_id
    INTEGER = "integer"  # -> BIGINT
    REAL = "real"  # -> DOUBLE
    FLAG = "flag"  # -> BOOLEAN
    TEXT = "text"  # -> VARCHAR
    TIME = "time"  # any of the service's formats -> TIMESTAMP WITH TIME ZONE, UTC, µs
    EPOCH_S = "epoch_s"  # seconds since 1970 as a number -> as TIME; other services send it
    EPOCH_MS = "epoch_ms"  # the same in milliseconds
    TIMEUUID = "timeuuid"  # version-1 UUID string -> VARCHAR; does not sort by time as text
    IDS = "ids"  # JSON:API links or ids, one or many -> JSON list of ids as texts, sorted
    JSON = "json"  # any value -> JSON, as the service wrote it


class Privacy(StrEnum):
    """What a value may reveal about a person or a device, beyond its measurements."""

    PLACE = "place"  # a coordinate
    IDENTIFIER = "identifier"  # of one device, SIM card or person
    NAME = "name"  # that people gave to a device, a person or an account
    TEXT = "text"  # which may contain any of the above


@dataclass(frozen=True, kw_only=True)
class Meaning:
    """A vocabulary entry: everything about a column except its field name.

    `is_tracked` is False if a change of this value alone does not start a new version of a record
    kept as history (a counter of seconds, a URL whose host varies). `is_foreign_url` means that the
    address is not the service's, whatever its path: its host is part of the content.
    """

    kind: Kind
    meaning: str
    unit: str | None = None
    is_tracked: bool = True
    privacy: Privacy | None = None
    is_foreign_url: bool = False


VOCABULARY: dict[str, Meaning] = {
    row["field"]: Meaning(
        kind=Kind(row["kind"]),
        meaning=row["meaning"],
        unit=row["unit"] or None,
        is_tracked=row["trait"] != "untracked",
        privacy=Privacy(row["privacy"]) if row["privacy"] else None,
        is_foreign_url=row["trait"] == "foreign_url",
    )
    for row in rows_beside(__file__, "vocabulary.csv")
}
