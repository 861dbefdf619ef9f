"""Fixtures of all tests: simulated services, empty lakes, and a machine without settings."""

import gc
import os
import shutil
import signal
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from inspect import signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import httpx
import hypothesis
import pytest
import stamina

from fleetlake.endpoints import forget_own
from fleetlake.lake import open_lake
from fleetlake.lake.attach import UNCHECKED
from fleetlake.settings import load_settings
from tests.support import servers
from tests.support.sim import Sim, new_sim

# A busy machine is not a bug: httpx waits 5 seconds unless its caller says otherwise.
vars(signature(httpx.get).parameters["timeout"].default).update(
    dict.fromkeys(("connect", "read", "write", "pool"), 120.0)
)

# In the proofs, properties are tested with more examples.
hypothesis.settings.register_profile("promises", deadline=None, max_examples=12)
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=100)
hypothesis.settings.load_profile("promises")

gc.disable()  # until the tests are collected: it would scan their 600,000 objects again and again

KINDS_OF_FILES = (stat.S_ISREG, stat.S_ISDIR, stat.S_ISFIFO, stat.S_ISSOCK)

LONGEST = (
    *("prefect", "marts", "readme", "processes", "tests.test_printed", "tests.test_cli"),
    *("tests.test_full_disk", "exporters.test_contract"),
)
"""Groups of proofs that take longest: a worker that began one last would leave the others idle."""

OWN_FOLDERS = ("lake", "published", "reports", "state", "push_journal", "push_secrets_file")
"""Settings whose default is a place that belongs to the user."""


def pytest_configure(config: pytest.Config) -> None:
    """Bring named files of one folder together: else pytest loses fixtures of that folder."""
    config.args.sort()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of one file in one worker: each worker would make what they share anew.

    `make proofs` begins with the longest groups.
    """
    for item in items:
        if not any(item.iter_markers("xdist_group")):
            folder = item.path.parent.name
            item.add_marker(pytest.mark.xdist_group(f"{folder}.{item.path.stem}"))
    items.sort(key=lambda item: min(map(rank, item.iter_markers("xdist_group"))))


def rank(group: pytest.Mark) -> int:
    """Return the place of a group of tests: the longest first, all others after them."""
    name = group.args[0]
    return LONGEST.index(name) if name in LONGEST else len(LONGEST)


def pytest_collection_finish() -> None:
    """Keep what collecting left out of the garbage collection during the tests."""
    gc.enable()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def ctrl_c() -> None:
    """Let Ctrl-C end what tests start, also in a background job, which ignores it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def no_waits() -> Iterator[None]:
    """Retry immediately: tests never sleep."""
    with stamina.set_testing(True, attempts=20):
        yield


@pytest.fixture(scope="session", autouse=True)
def no_settings_of_this_machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the user's own settings out of the tests, and the tests out of the user's own folders.

    A test that names only the lake of a command must not read or empty what the project's `data`
    holds, such as its journal of pushed messages.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name in os.environ.keys() - servers.NAMES:
            if name.startswith("FLEETLAKE_"):
                patch.delenv(name)
        folder = tmp_path_factory.mktemp("default")
        for name in OWN_FOLDERS:
            patch.setenv(f"FLEETLAKE_{name.upper()}", str(folder / name.replace("_", "-")))
        yield


@pytest.fixture(autouse=True)
def own_settings() -> Iterator[None]:
    """Let each test read settings anew: a process reads them once, and tests share a process."""
    load_settings.cache_clear()
    forget_own()
    yield
    load_settings.cache_clear()
    forget_own()


@pytest.fixture
def default_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the settings have their defaults in this test, which does nothing in those folders."""
    for name in OWN_FOLDERS:
        monkeypatch.delenv(f"FLEETLAKE_{name.upper()}")


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Open the tests' small lakes with one thread: more threads would only spin and use CPU."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fleetlake.lake.catalog.UNCHECKED", UNCHECKED | {"threads": 1})
        yield


@pytest.fixture(scope="session", autouse=True)
def no_flushing() -> Iterator[None]:
    """Leave flushing to `tests/power`: no disk fails here, and a flush waits for all others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fleetlake.lake.durable._libc", SimpleNamespace(syncfs=lambda _: 0))
        yield


@pytest.fixture
def closed_files() -> Iterator[None]:
    """Require that a test leaves no file, folder, pipe or socket open in this process."""
    before = open_files()
    yield
    gc.collect()
    assert open_files() - before == set()


def open_files() -> set[tuple[int, int, str]]:
    """Return what this process has open: the descriptor, the inode and, on Linux, the name."""
    found = set()
    for entry in Path("/dev/fd").iterdir():
        with suppress(OSError):  # the descriptor of this listing is closed again
            status = os.fstat(int(entry.name))
            if any(is_kind(status.st_mode) for is_kind in KINDS_OF_FILES):
                found.add((int(entry.name), status.st_ino, str(entry.readlink())))
    return found


@pytest.fixture
def flushes(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], None]]:
    """Return the functions to call at each flush of a disk; a test adds what it looks at then."""
    found: list[Callable[[], None]] = []

    def flush(_descriptor: int) -> int:
        for look in found:
            look()
        return 0

    monkeypatch.setattr("fleetlake.lake.durable._libc", SimpleNamespace(syncfs=flush))
    return found


@pytest.fixture(scope="session")
def empty_lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an empty lake to copy, which is faster than creating one."""
    path = tmp_path_factory.mktemp("empty") / "lake"
    with open_lake(path):
        pass
    return path


@pytest.fixture
def lake_path(empty_lake: Path, tmp_path: Path) -> Path:
    """Return an empty lake of the test's own."""
    return Path(shutil.copytree(empty_lake, tmp_path / "lake"))


@pytest.fixture(scope="module")
def module_lake(empty_lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an empty lake for a module to fill once; its tests only read it."""
    return Path(shutil.copytree(empty_lake, tmp_path_factory.mktemp("module") / "lake"))


@pytest.fixture
def make_sim(lake_path: Path) -> Callable[..., Sim]:
    """Return a function that starts a simulated service for this test's lake."""

    def make(**options: Any) -> Sim:
        return new_sim(lake_path.parent, **options)

    return make


@pytest.fixture
def sim(make_sim: Callable[..., Sim]) -> Sim:
    """Return a simulated service of six routers and three days."""
    return make_sim()


@pytest.fixture
def abroad(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every new DuckDB connection start in the time zone of a machine in Tokyo.

    A test cannot set TZ instead: DuckDB reads it once per process.
    """
    connect = duckdb.connect

    def in_tokyo(*arguments: Any, **options: Any) -> duckdb.DuckDBPyConnection:
        connection = connect(*arguments, **options)
        connection.execute("SET TimeZone = 'Asia/Tokyo'")
        return connection

    monkeypatch.setattr(duckdb, "connect", in_tokyo)
