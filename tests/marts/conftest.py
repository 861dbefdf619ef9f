"""Lakes with hand-made rows, for tests that show what the SQL layer does with them."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from fleetlake.endpoint import Mode
from fleetlake.endpoints import ENDPOINTS
from fleetlake.lake import open_lake
from fleetlake.marts import BuildResult, build_marts

LOADED_AT = datetime(2026, 11, 20, tzinfo=UTC)

AddRows = Callable[..., None]


def add_rows(lake_path: Path, endpoint: str, *rows: dict[str, Any]) -> None:
    """Write rows to a raw table in one commit; what a row does not say is null."""
    kept = {"account_profile": "default", "_load_id": "test", "_loaded_at": LOADED_AT}
    if ENDPOINTS[endpoint].mode is Mode.HISTORY:
        kept["valid_from"] = LOADED_AT
    with open_lake(lake_path) as lake:
        lake.execute("begin")
        for row in rows:
            values = kept | row
            names = ", ".join(f'"{name}"' for name in values)
            marks = ", ".join("?" for _ in values)
            lake.execute(
                f'insert into raw."{endpoint}" ({names}) values ({marks})',
                [json.dumps(v) if isinstance(v, dict | list) else v for v in values.values()],
            )
        lake.execute("commit")


@pytest.fixture(scope="session")
def add() -> AddRows:
    """Return `add_rows`, which tests may not import from here."""
    return add_rows


@pytest.fixture(scope="session")
def empty_build(tmp_path_factory) -> tuple[Path, BuildResult]:
    """Return a lake without a row, built; for reading only, since many tests share it."""
    lake = tmp_path_factory.mktemp("empty") / "lake"
    return lake, build_marts(lake)
