"""A separate database for each test, on the server that `make test-outlets` starts."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import adbc_driver_postgresql.dbapi
import pytest
from pydantic import SecretStr

from fleetlake.lake_address import SharedLake
from tests.support.servers import postgres


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark these tests: they need a server, and they stay on one worker."""
    for item in items:
        if "machines" in item.path.parts:
            item.add_marker(pytest.mark.xdist_group("processes"))
            item.add_marker(pytest.mark.postgres)


@pytest.fixture
def catalog(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """Return the address of an empty database."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    server = postgres()
    name = f"test_{uuid4().hex[:12]}"
    with adbc_driver_postgresql.dbapi.connect(server, autocommit=True) as connection:
        with connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {name}")
        yield server.replace("/postgres?", f"/{name}?")


@pytest.fixture
def shared(catalog: str, tmp_path: Path) -> SharedLake:
    """Return the location of a lake that machines can share."""
    return SharedLake(SecretStr(catalog), str(tmp_path / "files"))
