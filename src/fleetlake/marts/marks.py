"""The comments of marts: what each one is, and whose model made it.

A build gives each mart that it makes a comment: its description, and a last line that says whose
model made it, fleetlake's or that of a project. Tables without such a mark are the user's own, and
stay. So do marts of another project: a build outside of a project does not know its models.
"""

from collections.abc import Iterator, Mapping

import duckdb

from fleetlake.machine.project import found_project
from fleetlake.marts.catalogue import Description, comments, descriptions_of
from fleetlake.marts.sql_project import own_models, project_folder
from fleetlake.text.quoting import quoted

OURS = "built by fleetlake"

_MADE = """
SELECT DISTINCT table_name FROM duckdb_columns()
WHERE database_name = 'build' AND schema_name = 'marts'
"""
_HELD = """
SELECT table_name, comment FROM duckdb_tables()
WHERE database_name = 'lake' AND schema_name = 'marts' ORDER BY table_name
"""
_COLUMNS = """
SELECT table_name, column_name, comment FROM duckdb_columns()
WHERE database_name = 'lake' AND schema_name = 'marts'
"""


def drop_marts_without_model(connection: duckdb.DuckDBPyConnection) -> tuple[str, ...]:
    """Describe the marts that builds made, and drop those that no model defines any more.

    The build file is attached as `build`. Runs in the open transaction; returns the names of the
    dropped marts.
    """
    marks, gone = _marks_of_models(), (OURS, _mark_of_project())
    made = {name for (name,) in connection.execute(_MADE).fetchall()}
    held = dict(connection.execute(_HELD).fetchall())
    removed = [name for name in held if name not in marks and _mark(held[name]) in gone]
    for name in removed:
        connection.execute(f"DROP TABLE lake.marts.{quoted(name)}")
    kept = {name: marks[name] for name in made & marks.keys() & held.keys()}
    if statements := [*_comments(connection, kept, held)]:
        connection.execute("; ".join(statements))
    return tuple(removed)


def _comments(
    connection: duckdb.DuckDBPyConnection, marks: Mapping[str, str], held: Mapping[str, str | None]
) -> Iterator[str]:
    """Yield the statements that describe and mark marts whose comments are not yet as wanted."""
    columns: dict[str, dict[str, str | None]] = {}
    for table, column, comment in connection.execute(_COLUMNS).fetchall():
        columns.setdefault(table, {})[column] = comment
    for (_, name), (about, meanings) in descriptions_of(("marts", m) for m in marks).items():
        wanted: Description = (f"{about}\n{marks[name]}".strip(), meanings)
        first, *others = comments(f"lake.marts.{quoted(name)}", "TABLE", wanted, columns[name])
        yield from others if held[name] == wanted[0] else (first, *others)


def _mark(comment: str | None) -> str:
    """Return the last line of a mart's comment."""
    return (comment or "").rpartition("\n")[2]


def _marks_of_models() -> Mapping[str, str]:
    """Return the mark of each mart that a model defines, by its name."""
    ours = (project_folder() / "models" / "marts").rglob("*.sql")
    own = {path.stem: _mark_of_project() for path in own_models()}
    return {path.stem: OURS for path in ours} | own


def _mark_of_project() -> str:
    return f"{OURS} from {found_project()}"
