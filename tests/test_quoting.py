"""Names with quotes and backslashes stay names in SQL and YAML."""

from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from fleetlake.exporters import TARGETS
from fleetlake.exporters.bigquery import BIGQUERY
from fleetlake.exporters.contract import SYNCED_AT
from fleetlake.exporters.export import export
from fleetlake.exporters.postgres import POSTGRES
from fleetlake.lake import open_lake
from fleetlake.publishing.publish import publish
from fleetlake.text.quoting import literal, quoted
from tools.reference import _quoted

MART, COLUMN = 'o\'dd "mart"', 'say "hi" \\ o\'brien'


@given(st.text(max_size=20))
def test_quoted_names_and_texts_are_read_back_unchanged(text: str) -> None:
    if "\0" in text:
        with pytest.raises(ValueError, match="NUL"):
            quoted(text)
        with pytest.raises(ValueError, match="NUL"):
            literal(text)
        return
    with duckdb.connect() as connection:
        found = connection.execute(f"select {literal(text)} as {quoted(text or 'x')}")

        assert [column[0] for column in found.description] == [text or "x"]
        assert found.fetchall() == [(text,)]


@given(st.text(max_size=40))
def test_a_description_is_the_same_text_in_yaml(text: str) -> None:
    assert yaml.safe_load(f"- {{description: {_quoted(text)}}}") == [{"description": text}]


@pytest.mark.parametrize(
    ("name", "in_postgres", "in_bigquery"),
    [
        ("plain", '"plain"', "`plain`"),
        ('a"b', '"a""b"', '`a"b`'),
        ("a`b", '"a`b"', "`a\\`b`"),
        ("a\\b", '"a\\b"', "`a\\\\b`"),
    ],
)
def test_a_name_is_escaped_as_the_target_requires(
    name: str, in_postgres: str, in_bigquery: str
) -> None:
    assert POSTGRES.name(name) == in_postgres
    assert BIGQUERY.name(name) == in_bigquery


def test_a_mart_with_quotes_in_its_names_is_published_and_exported(
    lake_path: Path, tmp_path: Path
) -> None:
    with open_lake(lake_path) as lake:
        lake.execute(f"create table marts.{quoted(MART)} as select 42 as {quoted(COLUMN)}")

    published = publish(lake_path, tmp_path / "published")
    with open_lake(lake_path, read_only=True) as lake:
        export(lake, TARGETS["parquet"], SecretStr(str(tmp_path / "out")))

    with duckdb.connect(published.path / "fleet.duckdb", read_only=True) as connection:
        assert connection.execute(f"select {quoted(COLUMN)} from {quoted(MART)}").fetchall() == [
            (42,)
        ]
    [file] = (tmp_path / "out").rglob("*.parquet")
    rows = pq.read_table(file, partitioning=None).drop_columns([SYNCED_AT])
    assert rows.to_pylist() == [{COLUMN: 42}]


@pytest.mark.parametrize("dialect", [POSTGRES, BIGQUERY], ids=["quotes", "backticks"])
def test_a_name_with_a_nul_is_refused_before_it_is_sent_to_a_database(dialect) -> None:
    with pytest.raises(ValueError, match="NUL"):
        dialect.name("trips\0")
