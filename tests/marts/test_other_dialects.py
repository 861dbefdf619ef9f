"""The models' SQL in the dialects of warehouses that no test can reach, as sqlglot translates it.

sqlglot knows their grammar, but not all of their functions: a test that passes here shows what
certainly has to be written for a warehouse, not that its marts are right. Only DuckDB and Spark
have built them. Each part that is not translated is listed below with what it needs.
"""

import re

import pytest
import sqlglot
from sqlglot import exp

from fleetlake.marts.plan import work_folder
from fleetlake.marts.sql_project import project_folder

JSON_LISTS = (
    r"Unsupported JSONPathPart type JSONPathWildcard",
    "a version of json_items and diff_removals, which read lists in JSON",
)
pytestmark = pytest.mark.xdist_group("marts.test_marts")  # which has the same lake built

NOT_TRANSLATED = {
    "bigquery": dict(
        [
            JSON_LISTS,
            (
                r"'NULLS LAST' translation not supported",
                "`is null` before the end of a span in `order by`: nulls come first in its windows",
            ),
            (r"'Identifier' object has no attribute 'sql_name'", "the same in a named window"),
            (
                r"Argument 'modifiers' is not supported for expression 'RegexpReplace'",
                "a version of without_hosts; it replaces every match anyway",
            ),
        ]
    ),
    "snowflake": dict([JSON_LISTS]),
    "trino": dict([JSON_LISTS]),
}
"""What sqlglot reports, as a pattern, and what the dialect needs instead."""

OURS_ONLY = {
    "epoch_us": {"utc_date"},
    "getvariable": {"built_at"},
    "pg_timezone_names": {"known_zones"},
    "row": {"ordered_struct"},
    "timezone": {"local_time", "local_day_start"},
    "to_hours": {"local_day_start"},
    "to_microseconds": {"seconds_after"},
}
"""DuckDB's functions that sqlglot does not know, and the macros that a dialect has to replace."""


@pytest.fixture(scope="module")
def models(built):
    """Return the compiled SQL of every model, as sqlglot reads it."""
    lake, _, _ = built
    compiled = work_folder(lake) / "target" / "compiled" / "fleetlake" / "models"
    texts = {path.stem: path for path in compiled.rglob("*.sql") if path.parent.suffix != ".yml"}
    names = {path.stem for path in (project_folder() / "models").rglob("*.sql")}
    assert texts.keys() == names
    return {name: sqlglot.parse_one(texts[name].read_text(), dialect="duckdb") for name in names}


def faults(model, dialect):
    """Return what sqlglot cannot translate."""
    try:
        model.sql(dialect=dialect, unsupported_level=sqlglot.ErrorLevel.RAISE, max_unsupported=999)
    except (sqlglot.UnsupportedError, AttributeError) as error:  # see NOT_TRANSLATED
        return str(error).split("\n\n")
    return []


@pytest.mark.parametrize("dialect", NOT_TRANSLATED)
def test_what_a_dialect_of_a_warehouse_cannot_say_is_listed(models, dialect):
    found = {fault: name for name, model in models.items() for fault in faults(model, dialect)}
    known = {
        fault: pattern
        for fault in found
        for pattern in NOT_TRANSLATED[dialect]
        if re.match(pattern, fault)
    }

    assert {name: fault for fault, name in found.items() if fault not in known} == {}
    assert {*known.values()} == {*NOT_TRANSLATED[dialect]}


def test_no_window_reads_the_rest_of_its_partition_again_for_each_row(models):
    """Spark does, if a frame ends with the partition and begins after its first row."""
    frames = [
        (name, frame.sql())
        for name, sql in models.items()
        for frame in sql.find_all(exp.WindowSpec)
        if frame.args.get("end") == "UNBOUNDED" and frame.args.get("start") != "UNBOUNDED"
    ]

    assert frames == []


def test_functions_of_duckdb_alone_are_in_macros_that_an_adapter_can_replace(models):
    used = {node.name.lower() for sql in models.values() for node in sql.find_all(exp.Anonymous)}
    macros = "".join(path.read_text() for path in (project_folder() / "macros").glob("*.sql"))
    bodies = dict(re.findall(r"macro (\w+)\(.*?-?%}(.*?)\{%-? endmacro", macros, re.DOTALL))

    assert used == {*OURS_ONLY}
    for function, replaceable in OURS_ONLY.items():
        found = {name for name, body in bodies.items() if f"{function}(" in body}
        assert {f"default__{name}" for name in replaceable} <= found
        assert {f"spark__{name}" for name in replaceable} <= bodies.keys()
