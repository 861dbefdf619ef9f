"""Looking for what was erased in every file of a folder, as the encodings in which it may be there.

Texts are looked for as bytes in every file, and in the decoded values of Parquet, SQLite and DuckDB
files, whose pages may be compressed. An id is a small number, which any few bytes may spell, so in
those files it is looked for only in the decoded values: alone, or within an address. Left out are
the numbers that DuckLake gives to the rows of its files. In all other files an id is looked for as
digits.
"""

import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import duckdb


@dataclass(frozen=True, kw_only=True)
class Leak:
    """Where something was found, and how it was spelled there."""

    file: str
    found: str


@dataclass(frozen=True, kw_only=True)
class Scan:
    """The result: what was found, and how much was read."""

    leaks: list[Leak]
    files: int
    bytes: int


def scan(folders: Iterable[Path], *, texts: Iterable[str], ids: Iterable[object]) -> Scan:
    """Return every place below some folders that holds one of the texts or ids."""
    wanted = {text.lower() for text in texts if text}
    numbers = {str(id_) for id_ in ids}
    files = [file for folder in folders for file in sorted(folder.rglob("*")) if file.is_file()]
    leaks = [
        Leak(file=str(file), found=hit) for file in files for hit in _hits(file, wanted, numbers)
    ]
    return Scan(leaks=leaks, files=len(files), bytes=sum(file.stat().st_size for file in files))


def _hits(file: Path, texts: set[str], ids: set[str]) -> Iterator[str]:
    content = file.read_bytes()
    lowered = content.lower()
    yield from (f"bytes {text}" for text in texts if text.encode() in lowered)
    if content.startswith(b"SQLite format 3"):
        yield from _sqlite_hits(file, texts, ids)
    elif content[:4] == b"PAR1":
        with duckdb.connect() as connection:
            relation = f"read_parquet('{file}', hive_partitioning = false)"
            yield from _duckdb_hits(connection, relation, texts, ids)
    elif content[8:12] == b"DUCK":
        with duckdb.connect(file, read_only=True) as connection:
            for schema, table in connection.execute(
                "select schema_name, table_name from duckdb_tables()"
            ).fetchall():
                yield from _duckdb_hits(connection, f'"{schema}"."{table}"', texts, ids)
    else:
        yield from (f"digits {i}" for i in ids if re.search(rf"(?<!\d){i}(?!\d)".encode(), content))


def _sqlite_hits(file: Path, texts: set[str], ids: set[str]) -> Iterator[str]:
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as catalog:
        tables = catalog.execute("select name from sqlite_master where type = 'table'").fetchall()
        for (table,) in tables:
            for row in catalog.execute(f'select * from "{table}"'):
                for value in row:
                    text = str(value).lower()
                    yield from (f"{table}: {t}" for t in texts if t in text)
                    if text in ids:
                        yield f"{table}: {text}"


def _duckdb_hits(
    connection: duckdb.DuckDBPyConnection, relation: str, texts: set[str], ids: set[str]
) -> Iterator[str]:
    described = connection.execute(f"describe select * from {relation}").fetchall()
    patterns = [*map(re.escape, sorted(texts)), *(rf"(^|/){id_}(/|$)" for id_ in sorted(ids))]
    pattern = "|".join(patterns)
    for name, kind, *_ in described:
        if name.startswith("_ducklake_internal_"):
            continue
        if kind in {"DOUBLE", "FLOAT", "BOOLEAN", "DATE"} or kind.startswith("TIMESTAMP"):
            continue
        found = connection.execute(
            f'select any_value("{name}"::varchar), count(*) from {relation} '
            f'where regexp_matches(lower("{name}"::varchar), ?)',
            [pattern],
        ).fetchone()
        if found and found[1]:
            yield f"{relation}.{name}: {found[0]} ({found[1]} rows)"
