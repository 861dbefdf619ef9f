"""Lakes with hand-made rows, for tests of the SQL layer."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from itertools import chain, groupby
from pathlib import Path
from typing import Any

import httpx
import pytest

from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.model import Endpoint, Mode
from fleetlake.lake import open_lake
from fleetlake.loading.ingest import ingest, raise_worst
from fleetlake.marts import BuildResult, BuildStep, build_marts, dbt_process
from fleetlake.settings import Settings
from fleetsim.app import create_app
from fleetsim.options import SimulatorOptions
from tests.marts.warm_dbt import REAL, WarmDbt

LOADED_AT = datetime(2026, 11, 20, tzinfo=UTC)
NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)

AddRows = Callable[..., None]


def add_rows(lake_path: Path, endpoint: str, *rows: dict[str, Any]) -> None:
    """Write rows to a raw table in one commit; members missing from a row are null."""
    kept = {"account_profile": "default", "_load_id": "test", "_loaded_at": LOADED_AT}
    if ENDPOINTS[endpoint].mode is Mode.HISTORY:
        kept["valid_from"] = LOADED_AT
    with open_lake(lake_path) as lake:
        lake.execute("begin")
        for names, alike in groupby((kept | row for row in rows), key=tuple):
            columns, marks = (", ".join(of) for of in ((f'"{n}"' for n in names), "?" * len(names)))
            values = [
                [json.dumps(v) if isinstance(v, dict | list) else v for v in row.values()]
                for row in alike
            ]
            for first in range(0, len(values), 200):  # one statement for each row would take long
                part = values[first : first + 200]
                lake.execute(
                    f'insert into raw."{endpoint}" ({columns}) values '
                    + ", ".join([f"({marks})"] * len(part)),
                    [*chain.from_iterable(part)],
                )
        lake.execute("commit")


@pytest.fixture(scope="session")
def add() -> AddRows:
    """Return `add_rows`, because tests cannot import it from here."""
    return add_rows


@pytest.fixture(scope="session")
def warm_dbt() -> Iterator[WarmDbt]:
    """Return the server that makes runs of dbt cheap."""
    with closing(WarmDbt()) as warm:
        yield warm


@pytest.fixture(scope="module", autouse=True)
def _dbt_is_warm(warm_dbt: WarmDbt) -> Iterator[None]:
    """Let all tests here run dbt cheaply."""
    with warm_dbt.used():
        yield


@pytest.fixture
def real_dbt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a test run dbt through its real command line."""
    monkeypatch.setattr(dbt_process, "_program", REAL)


def _least_row(endpoint: Endpoint) -> dict[str, Any]:
    """Return a row with only the required members of a record."""
    times = {*filter(None, [endpoint.event_time])}
    times |= {"valid_from"} if endpoint.mode is Mode.HISTORY else set()
    return dict.fromkeys(endpoint.key, "1") | dict.fromkeys(times, NOON)


@pytest.fixture(scope="session")
def built(
    empty_lake: Path, tmp_path_factory: pytest.TempPathFactory, warm_dbt: WarmDbt
) -> tuple[Path, BuildResult, list[BuildStep]]:
    """Build a lake with one such row in each table; return the lake, the result and each step.

    For reading only, since many tests share it.
    """
    lake = Path(shutil.copytree(empty_lake, tmp_path_factory.mktemp("built") / "lake"))
    with open_lake(lake) as opened:
        opened.execute("begin")
        for endpoint in ENDPOINTS.values():
            row = _least_row(endpoint)
            names, marks = ", ".join(row), ", ".join("?" for _ in row)
            sql = f'insert into raw."{endpoint.name}" ({names}) values ({marks})'
            opened.execute(sql, list(row.values()))
        opened.execute("commit")
    steps: list[BuildStep] = []
    with warm_dbt.used():
        return lake, build_marts(lake, on_progress=steps.append), steps


@pytest.fixture(scope="session")
def make_lake(empty_lake: Path) -> Callable[..., Path]:
    """Return a function that ingests a small fleet, or some endpoints, into a folder's lake."""

    def make(folder: Path, *endpoints: str, scenario: str | None = None) -> Path:
        options = SimulatorOptions(routers=12, days=4, now=LOADED_AT, speed=0, scenario=scenario)
        app = create_app(options)
        lake = Path(shutil.copytree(empty_lake, folder / "lake"))
        settings = Settings(
            base_url="http://localhost/api/v2/",
            lake=lake,
            calls_per_minute=0,
            clock="service",
            portal_api_id="portal-id",
            portal_api_key="portal-key",
            mgr_api_id="admin-id",
            mgr_api_key="admin-key",
        )
        raise_worst(ingest(settings, [*endpoints], transport=httpx.ASGITransport(app=app)))
        return lake

    return make
