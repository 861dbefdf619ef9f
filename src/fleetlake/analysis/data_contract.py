"""The data contract of what is published, in the Open Data Contract Standard (ODCS) 3.1.

Schema, keys, meanings and units come from the dbt project. The service levels are no promises: they
are measured on the lake's snapshot that was published. `make reference` renders the contract of the
marts of this release, without what is measured, into `docs/reference/marts.odcs.yaml`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml

from fleetlake.analysis.reader import LakeReader, open_for_reading
from fleetlake.endpoints import ENDPOINTS
from fleetlake.errors import LakeError
from fleetlake.lake.attach import address_members
from fleetlake.marts.catalogue import descriptions_of, exposures, mart_keys, marts, unit_of
from fleetlake.publishing.publish import DAYS
from fleetlake.publishing.snapshot_folders import description_of, published_folder
from fleetlake.settings import Settings
from fleetlake.text.quoting import quoted

Contract = dict[str, Any]
Columns = Mapping[str, str]
"""The DuckDB type of each column."""

_RAW = "raw_"
_TYPES = {
    "VARCHAR": ("string", "text"),
    "JSON": ("string", "text"),
    "BIGINT": ("integer", "bigint"),
    "DOUBLE": ("number", "double"),
    "BOOLEAN": ("boolean", "boolean"),
    "DATE": ("date", "date"),
    "TIMESTAMP WITH TIME ZONE": ("timestamp", "timestamp"),
}
"""The logical type of each column type, and a name for it that DuckDB and PostgreSQL both know."""

_OTHER_TYPES = {r"\[": "array", "STRUCT|MAP": "object", "INT": "integer", "DEC|FLO": "number"}
"""Logical types of columns in a project's own marts."""


def released_contract() -> Contract:
    """Return the contract of this release's marts, without what depends on a lake."""
    return _contract(
        {
            mart["name"]: {c["name"]: c["data_type"].upper() for c in mart["columns"]}
            for mart in marts()
        }
    )


def measured_contract(settings: Settings) -> Contract:
    """Return the contract of the newest published snapshot, with its service levels as measured.

    Raises: LakeError if nothing is published, or UsageError if the lake has no snapshot of then.
    """
    folder = published_folder(settings)
    described = description_of(folder)
    if not described:
        raise LakeError(
            f"There is no published snapshot in {folder}.", remedy="Run `fleetlake publish` first."
        )
    tables = {
        name: {column["name"]: column["type"] for column in table["columns"]}
        for name, table in described["tables"].items()
    }
    made_at = described["lake_snapshot"][1]
    with open_for_reading(None, published=False) as lake, lake.as_of(made_at) as then:
        levels = [level for name in tables for level in _levels(then, name, described)]
    return _contract(tables) | {
        "contractCreatedTs": described["published_at"],
        "servers": [*_servers(folder, settings)],
        "slaProperties": levels,
    }


def as_yaml(contract: Contract) -> str:
    """Return a contract as YAML, a column on one line where it fits."""
    text: str = yaml.safe_dump(
        contract, sort_keys=False, default_flow_style=None, allow_unicode=True, width=10_000
    )
    return text


def _contract(tables: Mapping[str, Columns]) -> Contract:
    owner = exposures()[0]["owner"]  # dbt wants at least one of name and e-mail
    name, email = owner.get("name") or owner.get("email"), owner.get("email") or owner.get("name")
    return {
        "apiVersion": "v3.1.0",
        "kind": "DataContract",
        "id": "fleetlake-marts",
        "name": "Fleet marts",
        "version": version("fleetlake"),
        "status": "active",
        "description": {
            "purpose": "Routers, their connections, batteries and places, for analysis.",
            "usage": "A name has one meaning and unit in every table, and times are UTC.",
        },
        "team": {"name": name, "members": [{"username": email, "role": "owner"}]},
        "support": [{"channel": name, "tool": "email", "url": f"mailto:{email}"}],
        "schema": [_table(name, columns) for name, columns in tables.items()],
    }


def _table(name: str, columns: Columns) -> dict[str, Any]:
    """Return a table; a key whose columns may be empty is a rule, since ODCS' own allows none."""
    schema, table = source = _source(name)
    about, meanings = descriptions_of([source])[source]
    key: Sequence[str] = ENDPOINTS[table].key if schema == "raw" else mart_keys().get(table, ())
    required = _required(name)
    is_keyed = bool(key) and {*key} <= columns.keys()  # places may be coarse, and names left out
    is_primary = is_keyed and {*key} <= required
    rule = {"type": "library", "metric": "duplicateValues", "mustBe": 0, "unit": "rows"}
    quality = [{**rule, "arguments": {"properties": [*key]}}] if is_keyed and not is_primary else []
    return {
        "name": name,
        "logicalType": "object",
        "physicalType": "table",
        "description": about,
        **({"quality": quality} if quality else {}),
        "properties": [
            {
                "name": column,
                "description": meanings.get(column, ""),
                **_type(column, kind),
                **({"required": True} if column in required else {}),
                **(
                    {"primaryKey": True, "primaryKeyPosition": key.index(column) + 1}
                    if is_primary and column in key
                    else {}
                ),
            }
            for column, kind in columns.items()
        ],
    }


def _source(name: str) -> tuple[str, str]:
    """Return the lake's schema and table behind a published name."""
    return ("raw", name.removeprefix(_RAW)) if name.startswith(_RAW) else ("marts", name)


def _required(mart: str) -> set[str]:
    """Return the columns of a mart that a build keeps from being empty."""
    columns = [c for one in marts() if one["name"] == mart for c in one.get("columns", ())]
    return {c["name"] for c in columns if {"type": "not_null"} in c.get("constraints", ())}


def _type(column: str, kind: str) -> dict[str, Any]:
    """Return the type of a column, and its unit if it is a number."""
    logical, physical = _TYPES.get(kind, ("", kind.lower()))
    logical = logical or next((t for p, t in _OTHER_TYPES.items() if re.search(p, kind)), "string")
    unit = unit_of(column) if logical in {"integer", "number"} else None
    return {
        "logicalType": logical,
        "physicalType": physical,
        **({"logicalTypeOptions": {"timezone": True}} if logical == "timestamp" else {}),
        **({"customProperties": [{"property": "unit", "value": unit}]} if unit else {}),
    }


def _servers(folder: Path, settings: Settings) -> Iterator[dict[str, Any]]:
    path = f"{folder.absolute()}/{{model}}/**/*.parquet"
    yield {"server": "published", "type": "local", "path": path, "format": "parquet"}
    if "postgres" in settings.exports:
        members = address_members(settings.exports["postgres"].get_secret_value())
        yield {
            "server": "postgres",
            "type": "postgres",
            "host": members.get("host", "localhost"),
            "port": int(members.get("port", "5432")),
            "database": members.get("dbname", ""),
            "schema": "public",
        }


def _levels(lake: LakeReader, name: str, described: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield how old a table's data was when it was published, and how complete it is."""
    proof = lake.sql(f"from {'.'.join(map(quoted, _source(name)))}").proof
    if until := proof.complete_until:
        at = datetime.fromisoformat(described["published_at"])
        yield {
            "property": "latency",
            "element": name,
            "value": round((at - until).total_seconds() / 3600, 2),
            "unit": "h",
            "description": f"Measured: complete until {until.astimezone(UTC):%Y-%m-%d %H:%M} UTC "
            f"when published at {at:%Y-%m-%d %H:%M} UTC.",
        }
    streams = {(stream.account_profile, stream.endpoint) for stream in proof.streams}
    days = [
        day["state"] not in {"hole", "lost"}
        for day in described["completeness"]
        if (day["account_profile"], day["endpoint"]) in streams
    ]
    if days:
        why = "".join(f" Not complete because {why}" for why in proof.not_complete_because)
        yield {
            "property": "completeness",
            "element": name,
            "value": round(100 * sum(days) / len(days), 2),
            "unit": "percent",
            "description": "Measured: days of its streams without a hole or loss, of the last "
            f"{DAYS}.{why}",
        }
