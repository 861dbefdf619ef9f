"""Staging views of the lists that a project describes: SQL and sources for dbt, made from the rows.

A model of the same name in the project's own `sql/models` replaces the view.
"""

from collections.abc import Iterator
from typing import Any

import yaml

from fleetlake.endpoints import own_lists
from fleetlake.endpoints.model import Endpoint, Mode


def own_sources() -> Iterator[dict[str, Any]]:
    """Yield the entry of each described list for dbt's source `raw`."""
    for one in own_lists().values():
        row = one.endpoint
        live = {"config": {"tags": ["live"]}} if row.is_live else {}
        yield {"name": row.name, "description": row.about, **live}


def own_views() -> dict[str, str]:
    """Return the SQL of the staging view of each described list, by the view's name."""
    return {f"stg_{name}": _view(one.endpoint) for name, one in own_lists().items()}


def staging_files(taken: frozenset[str]) -> dict[str, str]:
    """Return the files that dbt reads for the described lists, by name; empty if there are none.

    `taken` are names of models that the project has itself.
    """
    tables = [*own_sources()]
    if not tables:
        return {}
    database = "{{ 'lake' if target.type == 'duckdb' else none }}"
    raw = {"name": "raw", "database": database, "schema": "raw", "tables": tables}
    sources = yaml.safe_dump({"version": 2, "sources": [raw]}, sort_keys=False)
    views = {f"{name}.sql": sql for name, sql in own_views().items() if name not in taken}
    return {"_described_sources.yml": sources, **views}


def _view(row: Endpoint) -> str:
    is_history = row.mode is Mode.HISTORY
    names = ["account_profile", *(c.name for c in row.columns), *(["valid_from"] * is_history)]
    columns = "".join(f"    {{{{ adapter.quote('{name}') }}}},\n" for name in names)
    grain = "thing, as it is now" if is_history else ", ".join(row.key)
    return (
        f"-- Grain: one row per {grain}.\n-- Kind: view.\n\n"
        f"select\n{columns}    _loaded_at as loaded_at\n"
        f"from {{{{ source('raw', '{row.name}') }}}}\n"
        + ("where valid_to is null\n" if is_history else "")
    )
