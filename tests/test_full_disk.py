"""A full disk, and its siblings: named as what they are, never as damage, by every command."""

import errno
import os
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from datetime import datetime

import duckdb
import pytest

from fleetlake import cli
from fleetlake.care.integrity.check import check_lake
from fleetlake.errors import LakeError
from fleetlake.lake import open_lake
from fleetlake.lake.attach import CATALOG
from fleetlake.machine.io_faults import io_fault
from tests.support.processes import UNSETTLED, environment, fleetlake, service
from tests.support.small_disk import SmallDisk, small_disk
from tests.test_crash import compare

BUILD = ("build", "--full", "--select", "+alert_volume")
NAMES = ("routers", "alerts", "router_state_samples", "net_device_signal_samples")
COMMANDS = {
    ("check",): 7,
    ("check", "--full"): 7,
    ("repair",): 7,
    ("query", "select 1"): 7,
    ("status",): 7,
    ("ingest", *NAMES): 7,
    BUILD: 7,
    ("publish",): 7,
    ("maintain",): 7,
    ("export", "csv"): 7,
    ("backup", "backup"): 7,
    ("report",): 11,
    ("init", "new"): 7,
    ("demo",): 7,
}
"""Each command that reads or writes a disk, and its exit code where that is full."""

MIDWAY = [("ingest", *NAMES), BUILD, ("publish",), ("maintain",), ("backup", "copy")]
"""Commands that begin with some space, which ends while they write."""

ONE_OF_EACH_KIND = [("check",), *MIDWAY[:3], ("backup", "backup"), ("report",), ("demo",)]
"""Of each kind of what is written: nothing, rows, marts, files beside the lake, a whole lake."""
UNCLEAR = [
    sqlite3.OperationalError("disk I/O error"),
    sqlite3.OperationalError("unable to open database file"),
    duckdb.IOException('Failed to execute query "PRAGMA journal_mode=WAL": disk I/O error'),
    OSError(errno.EIO, os.strerror(errno.EIO)),
]


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallDisk]:
    """Return a small file system."""
    with small_disk(tmp_path_factory.mktemp("small") / "disk", "size=1m,nr_inodes=20") as found:
        yield found


@pytest.mark.proof
@pytest.mark.parametrize(
    ("commands", "midway"),
    [
        (ONE_OF_EACH_KIND, MIDWAY[:1]),
        pytest.param([*COMMANDS], MIDWAY, marks=pytest.mark.release),
    ],
    ids=["one of each kind", "all"],
)
def test_each_command_says_that_the_disk_is_full_and_afterwards_nothing_is_lost_or_doubled(
    tmp_path, commands, midway
):
    with small_disk(tmp_path / "disk", "size=256m") as disk, service(routers=3, days=1) as fleet:
        env = environment(disk.folder, fleet.url, exports__csv=disk.folder / "csv")
        for words in (("ingest", *NAMES), BUILD, ("publish",)):
            assert disk.fleetlake(*words, env=env).returncode == 0
        fleet.advance(3600)
        fleet.stop_clock()
        settled = datetime.fromisoformat(fleet.state()["now"]) - UNSETTLED
        new = env | {"FLEETLAKE_LAKE": str(disk.folder / "new-lake")}
        failed = {}

        for words in commands:
            # SQLite cannot open a whole catalog where it has no room for the index of its log.
            (disk.seen / "lake" / f"{CATALOG}-shm").unlink(missing_ok=True)
            disk.fill()
            failed[words] = disk.fleetlake(*words, env=new if words == ("demo",) else env)
        for number, words in enumerate(midway):
            disk.clear()
            disk.fill(leave=(number + 1) * 100_000)
            failed[*words, "midway"] = disk.fleetlake(*words, env=env)
        disk.clear()
        after = [
            disk.fleetlake(*words, env=env)
            for words in (
                ("check", "--full"),
                ("ingest", *NAMES),
                *(BUILD, ("publish",), ("maintain",), ("backup", "copy"), ("check", "--full")),
            )
        ]
        there = env | {
            "FLEETLAKE_LAKE": str(shutil.copytree(disk.seen / "lake", tmp_path / "lake"))
        }
        rows, doubles, losses = compare(fleet, there, settled.isoformat(), NAMES)

        for words in commands:
            assert failed[words].returncode == COMMANDS[words], (words, failed[words].stderr)
        for words, done in failed.items():
            if "midway" in words and not done.returncode:
                continue  # a command that needs less than what is free
            assert done.returncode in {7, 11}, (words, done.stderr)
            assert "Free some space" in done.stderr, words
            assert "MB are free" in done.stderr, words
            assert "damaged" not in done.stderr, words
        assert [done.returncode for done in after] == [0] * len(after), after
        assert rows
        assert (doubles, losses) == (0, 0)


@pytest.mark.proof
def test_a_full_disk_of_a_target_is_named_and_the_command_succeeds_when_it_has_space(
    tmp_path, lake_path
):
    env = environment(tmp_path, lake=lake_path)
    with open_lake(lake_path) as lake:
        lake.execute("create table marts.trips as select i as trip_id from range(10_000) t(i)")
    targets = {
        ("export", "csv", "--to", "csv"): 10,
        ("export", "parquet", "--to", "parquet"): 10,
        ("export", "delta", "--to", "delta"): 10,
        ("backup", "backup"): 7,
        ("publish", "--to", "published"): 7,
        ("metrics", "--output", "metrics.prom"): 11,
    }
    with small_disk(tmp_path / "disk", "size=64m") as disk:
        disk.fill()
        full = {words: disk.fleetlake(*words, env=env) for words in targets}
        disk.clear()
        after = {words: disk.fleetlake(*words, env=env) for words in targets}

    for words, code in targets.items():
        assert full[words].returncode == code, full[words].stderr
        assert "MB are free" in full[words].stderr
        assert after[words].returncode == 0, after[words].stderr


def test_a_whole_catalog_on_a_full_disk_is_not_reported_as_damaged(tmp_path, lake_path):
    look = (
        "from pathlib import Path; "
        "from fleetlake.care.integrity.check import page_faults; "
        "print(page_faults(Path('lake')))"
    )
    with small_disk(tmp_path / "disk", "size=16m") as disk:
        (disk.seen / "lake").mkdir()
        shutil.copy(lake_path / CATALOG, disk.seen / "lake")
        disk.fill()
        full = disk.run(sys.executable, "-c", look, env=dict(os.environ))
        disk.clear()
        free = disk.run(sys.executable, "-c", look, env=dict(os.environ))

    assert "LakeError: The disk of lake is full." in full.stderr
    assert free.stdout == "[]\n", free.stderr


@pytest.mark.parametrize("error", UNCLEAR, ids=repr)
def test_an_unclear_error_is_a_full_disk_where_the_disk_is_full(disk, error):
    before = io_fault(error, disk.seen / "lake")
    disk.fill()
    full = io_fault(error, disk.seen / "lake")
    disk.clear()

    assert before is None
    assert isinstance(full, LakeError)
    assert full.what == f"The disk of {disk.seen / 'lake'} is full."
    assert "0.0 MB of 1.0 MB are free" in full.remedy


@pytest.mark.parametrize(
    ("error", "is_explained"),
    [
        (duckdb.IOException('Cannot open file "/x.parquet": No such file or directory'), False),
        (sqlite3.DatabaseError("database disk image is malformed"), False),
        (sqlite3.OperationalError("unable to open database file"), True),
    ],
    ids=["missing", "malformed", "unopened"],
)
def test_a_file_that_is_missing_or_damaged_is_not_blamed_on_rights_that_a_reader_does_not_need(
    tmp_path, monkeypatch, error, is_explained
):
    monkeypatch.setattr("fleetlake.machine.io_faults._probe", lambda _: errno.EACCES)

    assert bool(io_fault(error, tmp_path)) is is_explained


@pytest.mark.parametrize("error", [UNCLEAR[0], OSError(errno.ENOSPC, "No space left on device")])
def test_a_file_system_without_free_inodes_is_not_reported_as_out_of_space(disk, error):
    while left := os.statvfs(disk.seen).f_favail:
        (disk.seen / f"file-{left}").touch()
    found = io_fault(error, disk.seen)
    for file in disk.seen.glob("file-*"):
        file.unlink()

    assert found
    assert "inode" in found.what
    assert "df -i" in found.remedy


def test_a_read_only_file_system_is_named_as_the_cause(tmp_path):
    with small_disk(tmp_path / "disk", "size=1m,ro") as disk:
        found = io_fault(UNCLEAR[1], disk.seen)

    assert found
    assert "is read-only" in found.what


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.EDQUOT, "Disk quota exceeded"), "quota"),
        (
            duckdb.IOException('Cannot write "/x/y": Disk quota exceeded'),
            "quota of this user at /x/y",
        ),
        (OSError(errno.EFBIG, "File too large"), "size limit"),
        (OSError(errno.EACCES, "Permission denied", "/x"), "refused this user access to /x"),
        (duckdb.IOException('Cannot open file "/x/y": Too many open files'), "ulimit -n"),
        (RuntimeError("can't start new thread"), "ulimit -u"),
        (BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"), "ulimit -u"),
        (MemoryError(), "memory limit"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "memory limit"),
    ],
    ids=repr,
)
def test_each_limit_of_the_machine_has_its_own_words(error, said):
    assert said in str(io_fault(error))


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("can't start new thread")], ids=["memory", "threads"]
)
def test_a_limit_of_the_machine_ends_a_command_without_a_traceback(monkeypatch, capsys, error):
    def fail() -> None:
        raise error

    monkeypatch.setattr(cli, "app", fail)

    assert cli.main() == 3
    assert "raise the" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "is_said"), [("metricflow.engine", True), ("fleetlake.x", False)])
def test_a_package_that_is_not_installed_is_named_and_a_module_of_ours_is_a_bug(
    monkeypatch, capsys, name, is_said
):
    def fail() -> None:
        raise ModuleNotFoundError("no module", name=name)

    monkeypatch.setattr(cli, "app", fail)

    if is_said:
        assert cli.main() == 3
        assert "The package metricflow is not installed" in capsys.readouterr().err
    else:
        with pytest.raises(ModuleNotFoundError):
            cli.main()


def test_an_error_that_no_limit_explains_stays_a_bug(monkeypatch):
    def fail() -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(cli, "app", fail)

    with pytest.raises(RuntimeError, match="a bug"):
        cli.main()


def test_a_whole_file_that_cannot_be_opened_at_the_moment_is_not_reported_as_damaged(
    lake_path, monkeypatch
):
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr("fleetlake.care.integrity.check.pq.read_metadata", refuse)
    monkeypatch.setattr("fleetlake.care.integrity.check.pq.ParquetFile", refuse)

    with pytest.raises(Exception, match="limit of open files"):
        check_lake(lake_path)


def test_files_of_a_new_project_are_whole_or_missing(tmp_path):
    with small_disk(tmp_path / "disk", "size=256k") as disk:
        disk.fill(leave=8192)
        first = disk.fleetlake("init", str(disk.folder / "new"), env=dict(os.environ))
        disk.clear()
        second = disk.fleetlake("init", str(disk.folder / "new"), env=dict(os.environ))
        other = fleetlake("init", str(tmp_path / "other"), env=dict(os.environ))
        names = {file.relative_to(tmp_path / "other") for file in tmp_path.glob("other/**/*")}
        files = [name for name in names if (tmp_path / "other" / name).is_file()]
        differing = [
            str(name)
            for name in files
            if (disk.seen / "new" / name).read_bytes() != (tmp_path / "other" / name).read_bytes()
        ]

    assert (first.returncode, second.returncode, other.returncode) == (7, 0, 0)
    assert differing == []
