"""What the dbt project says of itself: its sources, its marts, and what columns mean.

The meaning of raw columns comes from the endpoint table. The same texts are comments in the lake
and in the published DuckDB file, metadata of Parquet files, and comments at export targets.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.model import Endpoint
from fleetlake.marts.sql_project import (
    own_entries,
    own_sources,
    own_sql,
    own_views,
    parse_yaml,
    project_folder,
)
from fleetlake.text.quoting import literal, quoted

_REF = re.compile(r"""\bref\(\s*(?:["']\w+["']\s*,\s*)?["'](\w+)["']""")
_SOURCE = re.compile(r"""\bsource\(\s*["'](\w+)["']\s*,\s*["'](\w+)["']""")
_MACRO = re.compile(r"{%-?\s*macro\s+(\w+)\(.*?{%-?\s*endmacro", re.DOTALL)

_UNITS = {name: name for name in ("s", "min", "hours", "days", "bytes", "m", "km", "deg")} | {
    "pct": "percent",
    "c": "degrees Celsius",
    "dbm": "dBm",
    "db": "dB",
    "kmh": "km/h",
    "ma": "mA",
    "mv": "mV",
}

Description = tuple[str, dict[str, str]]
"""What a table holds, and what each of its columns means."""

_LIVE = "live"
"""Tag of live tables, whose changes start a build of the live marts."""


def tracked_tables() -> frozenset[str]:
    """Return the source tables whose changes start a build, as `schema.table`."""
    return frozenset(
        name for name, config in _sources() if config.get("meta", {}).get("starts_build", True)
    )


def mirrored_tables() -> frozenset[str]:
    """Return all source tables, as `schema.table`, for an engine that cannot read the lake."""
    return frozenset(name for name, _ in _sources())


def live_tables() -> frozenset[str]:
    """Return the source tables whose changes start a build of the live marts."""
    return frozenset(name for name, config in _sources() if _LIVE in config.get("tags", ()))


def _sources() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each source table as `schema.table`, and its configuration."""
    for path in _staging().glob("_*sources.yml"):
        for source in parse_yaml(path.read_text(encoding="utf-8"))["sources"]:
            for table in source["tables"]:
                yield f"{source['name']}.{table['name']}", table.get("config", {})
    for table in own_sources():
        yield f"raw.{table['name']}", table.get("config", {})


def sources_of(model: str) -> frozenset[str] | None:
    """Return the source tables that a model rests on, as `schema.table`; None if it is not one.

    They follow from the `ref` and `source` of its file, of the macros named there, and so on.

    >>> sorted(sources_of("stg_users"))
    ['raw.users']
    """
    return _sources_of(model, own_sql())


@cache
def _sources_of(model: str, own: Path | None) -> frozenset[str] | None:
    file = _files(own, "models").get(model)
    sql = file.read_text("utf-8") if file else own_views().get(model)
    if sql is None:
        return None
    waiting, seen, found = [sql], set[str](), set[str]()
    while waiting:
        text = waiting.pop()
        found.update(map(".".join, _SOURCE.findall(text)))
        for name in _REF.findall(text):
            found |= _sources_of(name, own) or set()
        macros = _macros(own)
        named = {word for word in re.findall(r"\w+", text) if word in macros} - seen
        waiting += [macros[name] for name in named]
        seen |= named
    return frozenset(found)


@cache
def _macros(own: Path | None) -> dict[str, str]:
    """Return the text of each macro of our project and the user's, by name."""
    texts = (file.read_text("utf-8") for file in _files(own, "macros").values())
    return {found[1]: found[0] for text in texts for found in _MACRO.finditer(text)}


@cache
def _files(own: Path | None, part: str) -> dict[str, Path]:
    """Return the SQL files of a part of our project and of the user's, by the file's name."""
    folders = [folder / part for folder in (project_folder(), own) if folder]
    return {file.stem: file for folder in folders for file in folder.rglob("*.sql")}


def marts() -> Iterator[dict[str, Any]]:
    """Yield the YAML entry of each mart: ours ordered by subject, then the project's own."""
    yield from _marts_in(project_folder())
    for own in own_entries():
        yield {"description": "", **own}


def exposures() -> list[dict[str, Any]]:
    """Return what uses marts, and who owns it: the project's own exposures, then ours."""
    text = (project_folder() / "models" / "exposures.yml").read_text("utf-8")
    return [*own_entries("exposures"), *parse_yaml(text)["exposures"]]


@cache
def _marts_in(project: Path) -> list[dict[str, Any]]:
    """Return the YAML entries of our marts, which take 0.05 s to read."""
    files = sorted((project / "models" / "marts").glob("*/_models.yml"))
    return [mart for path in files for mart in parse_yaml(path.read_text("utf-8"))["models"]]


def mart_meanings() -> dict[str, Description]:
    """Return what each mart holds and what each of its columns means, by the mart's name."""
    return {mart["name"]: _meanings_of(mart) for mart in marts()}


def _meanings_of(mart: dict[str, Any]) -> Description:
    grain = _meta(mart).get("grain")
    about = mart["description"] + (f" One row per {grain}." if grain else "")
    columns = mart.get("columns") or ()
    return _one_line(about), {c["name"]: meaning_of(c.get("description", "")) for c in columns}


def meaning_of(description: str) -> str:
    """Return a column's description. Raises: KeyError for a `doc` block that does not exist."""
    named = re.fullmatch(r'{{ doc\("(\w+)"\) }}', description)
    return _one_line(_doc_blocks()[named[1]] if named else description)


def _one_line(text: str) -> str:
    """Return a text on one line, without NUL, which no database stores."""
    return " ".join(text.replace("\0", " ").split())


@cache
def _doc_blocks() -> dict[str, str]:
    """Return the text of each `doc` block of the dbt project."""
    text = (project_folder() / "models" / "columns.md").read_text(encoding="utf-8")
    return dict(re.findall(r"{% docs (\w+) %}(.*?){% enddocs %}", text, re.DOTALL))


def unit_of(column: str) -> str | None:
    """Return the unit of a mart's number, by the ending of its name; None if it has none.

    >>> unit_of("backup_s"), unit_of("mean_rsrp_dbm"), unit_of("trips")
    ('s', 'dBm', None)
    """
    return _UNITS.get(column.rpartition("_")[2]) if "_" in column else None


def mart_keys() -> dict[str, tuple[str, ...]]:
    """Return the key columns of marts, from their data test `one_row_per`."""
    return _keys(own_sql())


def _dimensions() -> dict[str, str]:
    """Return the marts whose rows other tables name (`meta: is_dimension`), by their key column."""
    named = [mart["name"] for mart in marts() if _meta(mart).get("is_dimension")]
    keys = mart_keys()
    return {keys[name][0]: name for name in named if len(keys.get(name, ())) == 1}


def is_parent(schema: str, table: str) -> bool:
    """Return whether a table is a mart whose rows other tables name by its key."""
    return schema == "marts" and table in _dimensions().values()


def parents_of(schema: str, table: str, columns: Iterable[str]) -> dict[str, str]:
    """Return which tables the columns of a table name rows of, by the names of exported tables.

    >>> parents_of("marts", "trips", ["router_id", "trip_id", "trip_date"])
    {'router_id': 'device_inventory', 'trip_date': 'dates'}
    >>> parents_of("raw", "net_devices", ["id", "router_id"])
    {'router_id': 'raw_routers'}
    """
    if schema == "raw":
        named = {f"{name.removesuffix('s')}_id": f"raw_{name}" for name in ENDPOINTS}
    elif schema == "marts":
        named = _dimensions()
        named |= {date: named["day_date"] for date in {mart_dates().get(table)} if date}
    else:
        return {}
    own_key = (table, *mart_keys().get(table, ()))
    found = {name: named.get(name.removeprefix("parent_")) for name in columns}
    return {n: parent for n, parent in found.items() if parent and (parent, n) != own_key}


def mart_dates() -> dict[str, str]:
    """Return the column with the UTC day of a row, for the marts that have one."""
    return _dates(own_sql())


@cache
def _keys(_own: Path | None) -> dict[str, tuple[str, ...]]:
    keys = {}
    for mart in marts():
        for test in mart.get("data_tests", ()):
            if isinstance(test, dict) and "one_row_per" in test:
                keys[mart["name"]] = tuple(test["one_row_per"]["arguments"]["columns"])
    return keys


@cache
def _dates(_own: Path | None) -> dict[str, str]:
    return {mart["name"]: _meta(mart)["date"] for mart in marts() if "date" in _meta(mart)}


def _meta(mart: dict[str, Any]) -> dict[str, Any]:
    meta: dict[str, Any] = mart.get("config", {}).get("meta", {})
    return meta


def _staging() -> Path:
    return project_folder() / "models" / "staging"


UNDESCRIBED: Description = ("", {})


def described_in(schema: str, table: str) -> Description:
    """Return the description of a table; an empty one for a table that has none."""
    return descriptions_of([(schema, table)])[schema, table]


def descriptions_of(tables: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Description]:
    """Return the description of each table, by schema and name."""
    marts = mart_meanings()
    of_raw = {name: _of_endpoint(endpoint) for name, endpoint in ENDPOINTS.items()}
    known = {"marts": marts, "raw": of_raw}
    return {
        (schema, table): known.get(schema, {}).get(table, UNDESCRIBED) for schema, table in tables
    }


def comments(
    relation: str, kind: str, described: Description, present: Mapping[str, str | None]
) -> Iterator[str]:
    """Yield the DuckDB statements that describe a table or view, and its columns if they differ.

    `present` has the comment of each column so far.
    """
    about, meanings = described
    yield f"COMMENT ON {kind} {relation} IS {literal(about)}"
    for column, comment in present.items():
        if (meaning := meanings.get(column, "")) != (comment or ""):
            yield f"COMMENT ON COLUMN {relation}.{quoted(column)} IS {literal(meaning)}"


def parquet_metadata(described: tuple[str, Mapping[str, str]]) -> str:
    """Return the option of DuckDB's COPY that puts a description into each Parquet file.

    >>> print(parquet_metadata(("Trips.", {"trip_id": "Its first fix."})))
    KV_METADATA {description: 'Trips.', columns: '{"trip_id": "Its first fix."}'}
    """
    about, meanings = described
    columns = literal(json.dumps(dict(meanings), ensure_ascii=False))
    return f"KV_METADATA {{description: {literal(about)}, columns: {columns}}}"


def _of_endpoint(endpoint: Endpoint) -> Description:
    units = {
        column.name: f" Unit: {column.unit}." if column.unit else "" for column in endpoint.columns
    }
    return endpoint.about, {c.name: f"{c.meaning}{units[c.name]}" for c in endpoint.columns}
