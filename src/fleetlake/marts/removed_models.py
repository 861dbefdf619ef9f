"""Marts whose model was removed leave the lake.

A build marks each mart that it makes with a comment on the table, which says whose model made it:
fleetlake's, or that of a project. Tables without such a mark are the user's own, and stay. So do
marts of another project: a build outside of a project does not know its models.
"""

from collections.abc import Mapping

import duckdb

from fleetlake.machine.project import found_project
from fleetlake.marts.sql_project import own_models, project_folder
from fleetlake.text.quoting import literal, quoted

OURS = "built by fleetlake"

_MADE = """
SELECT table_name FROM duckdb_tables() WHERE database_name = 'build' AND schema_name = 'marts'
"""
_HELD = """
SELECT table_name, comment FROM duckdb_tables()
WHERE database_name = 'lake' AND schema_name = 'marts' ORDER BY table_name
"""


def drop_marts_without_model(connection: duckdb.DuckDBPyConnection) -> tuple[str, ...]:
    """Mark the marts that builds made, and drop those that no model defines any more.

    The build file is attached as `build`. Runs in the open transaction; returns the names of the
    dropped marts.
    """
    marks = _marks_of_models()
    made = {name for (name,) in connection.execute(_MADE).fetchall()}
    removed = []
    for name, comment in connection.execute(_HELD).fetchall():
        table = f"lake.marts.{quoted(name)}"
        if name not in marks and comment in {OURS, _mark_of_project()}:
            connection.execute(f"DROP TABLE {table}")
            removed.append(name)
        elif name in made & marks.keys() and comment != marks[name]:
            connection.execute(f"COMMENT ON TABLE {table} IS {literal(marks[name])}")
    return tuple(removed)


def _marks_of_models() -> Mapping[str, str]:
    """Return the mark of each mart that a model defines, by its name."""
    ours = (project_folder() / "models" / "marts").rglob("*.sql")
    own = {path.stem: _mark_of_project() for path in own_models()}
    return {path.stem: OURS for path in ours} | own


def _mark_of_project() -> str:
    return f"{OURS} from {found_project()}"
