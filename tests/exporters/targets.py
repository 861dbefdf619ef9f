"""The targets of the contract tests: how to open each, and how to read it without our code."""

import csv
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import adbc_driver_postgresql.dbapi
import duckdb
import polars as pl
import pytest
from deltalake import DeltaTable
from pydantic import SecretStr
from pyiceberg.catalog.sql import SqlCatalog

from fleetlake.exporters.contract import SYNCED_AT
from tests.exporters.recorded import Connection
from tests.support.servers import postgres

Row = dict[str, Any]


@dataclass(frozen=True)
class OpenedTarget:
    """The target of one test: its address, and a reader of its tables without our code."""

    name: str
    address: SecretStr
    read: Callable[[str], list[Row]]
    statements: list[str] = field(default_factory=list)


def listed(folder: Path) -> list[str]:
    """Return the files that a table's manifest lists."""
    names = json.loads((folder / "_export.json").read_text())["files"]
    return [str(folder / file["name"]) for file in names]


def _parquet(folder: Path, _: pytest.MonkeyPatch) -> OpenedTarget:
    def read(table: str) -> list[Row]:
        return pl.read_parquet(listed(folder / table)).to_dicts()

    return OpenedTarget("parquet", SecretStr(str(folder)), read)


CSV_TYPES = {
    "fixes": "BIGINT",
    "mean_rsrp_dbm": "DOUBLE",
    "is_weak": "BOOLEAN",
    "is_strong": "BOOLEAN",
    "seen_at": "TIMESTAMPTZ",
    SYNCED_AT: "TIMESTAMPTZ",
    "seen_date": "DATE",
}


def _geoparquet(folder: Path, patch: pytest.MonkeyPatch) -> OpenedTarget:
    return replace(_parquet(folder, patch), name="geoparquet")


def _csv(folder: Path, _: pytest.MonkeyPatch) -> OpenedTarget:
    def read(table: str) -> list[Row]:
        files = listed(folder / table)
        header = next(csv.reader(Path(files[0]).read_text().splitlines()))
        kinds = {name: CSV_TYPES.get(name, "VARCHAR") for name in header}
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            rows = connection.execute(
                f"FROM read_csv({files}, header = true, columns = {kinds}, quote = '\"', "
                "nullstr = '', allow_quoted_nulls = false, auto_detect = false)"
            )
            return rows.to_arrow_table().to_pylist()

    return OpenedTarget("csv", SecretStr(str(folder)), read)


def _jsonl(folder: Path, _: pytest.MonkeyPatch) -> OpenedTarget:
    def read(table: str) -> list[Row]:
        lines = [li for f in listed(folder / table) for li in Path(f).read_text().splitlines()]
        return [json.loads(line) for line in lines]

    return OpenedTarget("jsonl", SecretStr(str(folder)), read)


def _delta(folder: Path, _: pytest.MonkeyPatch) -> OpenedTarget:
    def read(table: str) -> list[Row]:
        rows: list[Row] = DeltaTable(str(folder / table)).to_pyarrow_table().to_pylist()
        return rows

    return OpenedTarget("delta", SecretStr(str(folder)), read)


def _iceberg(folder: Path, _: pytest.MonkeyPatch) -> OpenedTarget:
    def read(table: str) -> list[Row]:
        catalog = SqlCatalog("fleetlake", uri=f"sqlite:///{folder / 'catalog.db'}")
        try:
            rows: list[Row] = catalog.load_table(f"fleet.{table}").scan().to_arrow().to_pylist()
            return rows
        finally:
            catalog.close()

    return OpenedTarget("iceberg", SecretStr(str(folder)), read)


def _postgres(folder: Path, _: pytest.MonkeyPatch) -> OpenedTarget:
    del folder
    schema = f"test_{uuid4().hex[:12]}"

    def ask(sql: str, address: str) -> list[Row]:
        with (
            adbc_driver_postgresql.dbapi.connect(address, autocommit=True) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(sql)
            return cursor.fetch_arrow_table().to_pylist() if "SELECT" in sql else []

    server = postgres()
    ask(f"CREATE SCHEMA {schema}", server)
    address = f"{server}&options=-csearch_path%3D{schema}"
    return OpenedTarget(
        "postgres", SecretStr(address), lambda table: ask(f'SELECT * FROM "{table}"', address)
    )


def _warehouse(dialect: str) -> Callable[[Path, pytest.MonkeyPatch], OpenedTarget]:
    def target(folder: Path, monkeypatch: pytest.MonkeyPatch) -> OpenedTarget:
        file, statements = folder.with_suffix(".duckdb"), list[str]()

        def connect(*_: object, autocommit: bool = False, **__: object) -> Connection:
            return Connection(dialect, file, statements, autocommit)

        monkeypatch.setattr(f"adbc_driver_{dialect}.dbapi.connect", connect)

        def read(table: str) -> list[Row]:
            with duckdb.connect(file) as connection:
                connection.execute("SET TimeZone = 'UTC'")
                return connection.execute(f'FROM "{table}"').to_arrow_table().to_pylist()

        return OpenedTarget(dialect, SecretStr(f"{dialect}://project/main"), read, statements)

    return target


OPENERS = {
    "parquet": _parquet,
    "geoparquet": _geoparquet,
    "csv": _csv,
    "jsonl": _jsonl,
    "delta": _delta,
    "iceberg": _iceberg,
    "postgres": _postgres,
    "snowflake": _warehouse("snowflake"),
    "bigquery": _warehouse("bigquery"),
}


def normal(rows: list[Row]) -> list[Row]:
    """Return rows in a canonical order and spelling, without the time of their export."""
    plain = [
        {name: _plain(name, value) for name, value in row.items() if name != SYNCED_AT}
        for row in rows
    ]
    return sorted(plain, key=lambda row: json.dumps(row, sort_keys=True))


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, Decimal):
        return int(value)
    if name == "extra" and isinstance(value, str):
        return json.loads(value)
    if name.endswith("_at") and isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    return value.isoformat() if isinstance(value, date) else value
