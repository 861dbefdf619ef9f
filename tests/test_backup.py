"""Backups: consistent, incremental, restorable whatever stopped them; and lakes that move."""

import json
import shutil
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from errno import ENOSPC
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from pyarrow import fs
from pydantic import SecretStr

from fleetlake.care.backups import backup as backups
from fleetlake.care.backups.backup import back_up, copy_catalog
from fleetlake.care.backups.backup_target import MARK, PART, BackupTarget, copy_all
from fleetlake.care.backups.restore import restore
from fleetlake.care.integrity.checksums import keep_checksums
from fleetlake.care.maintenance import maintain
from fleetlake.errors import FleetlakeError, LakeBusy, LakeError, UsageError
from fleetlake.lake import open_lake
from fleetlake.lake.attach import CATALOG
from fleetlake.lake.catalog import RESTORING
from fleetlake.lake.locks import commit_lock, files_lock
from fleetlake.lake_address import DEMO_MARK, SharedLake
from tests.lakes.digest import Digest, digests
from tests.lakes.make import LAKES, ROWS, unpack
from tests.support.object_store import object_store

SOME = ["raw.groups", "raw.alerts", "raw.routers", "meta.intervals", "marts.device_inventory"]
STEPS = [
    pytest.param("the first file", marks=pytest.mark.release),
    "the fifth file",
    pytest.param("the catalog", marks=pytest.mark.release),
    "the manifest",
]


def rows_of(lake_path: Path) -> dict[str, Digest]:
    """Return what some tables hold, of each kind: all of them would take a second each time."""
    known = json.loads((LAKES / "0.2" / ROWS).read_text("utf-8"))
    return digests(lake_path, {name: known[name] for name in SOME})


@pytest.fixture(scope="module")
def upgraded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a lake with rows in files and in the catalog, and marts. Its upgrade takes seconds."""
    path = unpack("0.2", tmp_path_factory.mktemp("upgraded"))
    with open_lake(path):
        return path


@pytest.fixture
def lake_path(upgraded: Path, tmp_path: Path) -> Path:
    """Return a copy of that lake."""
    return shutil.copytree(upgraded, tmp_path / "lake")


@pytest.fixture
def target(tmp_path: Path) -> str:
    """Return a folder for backups."""
    return str(tmp_path / "backups")


def change(lake_path: Path) -> None:
    """Add rows, delete and update others, and rename a table."""
    with open_lake(lake_path) as lake:
        lake.execute("insert into raw.groups (id, name) select i + 900, 'new' from range(500) r(i)")
        lake.execute(
            "delete from raw.alerts where created_at < (select max(created_at) from raw.alerts)"
        )
        lake.execute("update raw.routers set name = 'x'")
        lake.execute("alter table raw.users rename to people")
        lake.execute("insert into raw.people (id) select i + 900 from range(500) r(i)")


def parquet_of(folder: Path | str) -> set[str]:
    return {path.name for path in Path(folder).rglob("*.parquet")}


@pytest.mark.proof
def test_a_restored_lake_holds_every_row_of_the_moment_of_the_backup(
    lake_path: Path, target: str, tmp_path: Path
) -> None:
    (lake_path / DEMO_MARK).write_text("{}")
    change(lake_path)
    before = digests(lake_path)
    copied: list[tuple[int, int]] = []

    done = back_up(lake_path, target, on_copied=lambda *sizes: copied.append(sizes))
    change_after(lake_path)
    restored = restore(target, tmp_path / "restored")

    assert digests(restored.lake) == before
    assert before["raw.people"]["rows"] >= 50
    assert (restored.lake / DEMO_MARK).read_text() == "{}"
    assert sum(size for size, _ in copied) == copied[0][1] == done.bytes_copied
    with open_lake(restored.lake) as lake:
        lake.execute("insert into raw.groups (id) values (1)")


def change_after(lake_path: Path) -> None:
    """Change the lake and remove its old files, which the backup has copied."""
    with open_lake(lake_path) as lake:
        lake.execute("delete from raw.groups")
        lake.execute("call ducklake_expire_snapshots('lake', older_than => now())")
        lake.execute("call ducklake_cleanup_old_files('lake', cleanup_all => true)")


def test_a_second_backup_copies_only_new_files_and_the_first_can_still_be_restored(
    lake_path: Path, target: str, tmp_path: Path
) -> None:
    held = rows_of(lake_path)
    first = back_up(lake_path, target)
    change(lake_path)

    second = back_up(lake_path, target)
    third = back_up(lake_path, target, keep=3)

    assert first.files_copied == len(first.manifest.files)
    assert 0 < second.files_copied == len(second.manifest.files) - len(first.manifest.files)
    assert third.files_copied == 0
    oldest = restore(target, tmp_path / "restored", at=first.manifest.stamp)
    assert rows_of(oldest.lake) == held


@pytest.mark.proof
def test_what_no_kept_backup_needs_is_removed_and_nothing_else(
    lake_path: Path, target: str, tmp_path: Path
) -> None:
    back_up(lake_path, target)
    with open_lake(lake_path) as lake:
        lake.execute("insert into raw.groups (id) select i + 900 from range(500) r(i)")
        maintain(lake)
    change_after(lake_path)
    stranger = Path(target, "files", "notes.txt")
    stranger.write_text("mine")
    before = parquet_of(target)

    done = back_up(lake_path, target, keep=1)

    kept = {Path(name).name for name in done.manifest.files}
    assert done.files_removed == len(before - kept) > 0
    assert parquet_of(target) == kept == parquet_of(lake_path / "files")
    assert len([*Path(target, "catalogs").iterdir()]) == 1
    assert stranger.read_text() == "mine"
    assert rows_of(restore(target, tmp_path / "restored").lake) == rows_of(lake_path)


@pytest.fixture
def stop_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, BaseException], None]:
    """Return what stops the next backup at one of STEPS."""

    def stop(step: str, error: BaseException) -> None:
        seen = 0
        write = BackupTarget._written  # noqa: SLF001 - every write goes through it

        def written(self: BackupTarget, name: str, *rest: Any) -> None:
            nonlocal seen
            seen += name.startswith("files/")
            steps = {"the first file": seen == 1, "the fifth file": seen == 5}
            steps |= {"the catalog": "catalogs/" in name, "the manifest": "manifests/" in name}
            if steps[step]:
                monkeypatch.setattr(BackupTarget, "_written", write)
                raise error
            write(self, name, *rest)

        monkeypatch.setattr(BackupTarget, "_written", written)

    return stop


@pytest.mark.proof
@pytest.mark.parametrize("step", STEPS)
def test_a_backup_stopped_at_any_step_leaves_the_one_before_and_the_next_goes_on(
    lake_path: Path,
    target: str,
    tmp_path: Path,
    stop_at: Callable[[str, BaseException], None],
    step: str,
) -> None:
    is_full = step == "the fifth file"
    error = OSError(28, "No space left on device") if is_full else KeyboardInterrupt()
    back_up(lake_path, target)
    held = rows_of(lake_path)
    with open_lake(lake_path) as lake:
        for table in ("groups", "users", "routers", "accounts", "products", "firmwares"):
            lake.execute(f"insert into raw.{table} (id) select i + 900 from range(500) r(i)")
    stop_at(step, error)
    with pytest.raises(LakeError if is_full else KeyboardInterrupt):
        back_up(lake_path, target)

    earlier = restore(target, tmp_path / "earlier")
    again = back_up(lake_path, target)

    assert rows_of(earlier.lake) == held
    assert again.files_copied <= 6
    assert rows_of(restore(target, tmp_path / "later").lake) == rows_of(lake_path)
    assert not [*Path(target).rglob("*.part")]


def test_maintenance_waits_for_no_backup_and_is_skipped_while_one_is_made(
    lake_path: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[FleetlakeError] = []
    copy = BackupTarget.put

    def put(self: BackupTarget, local: Path, name: str) -> None:
        if "catalogs/" in name:
            with open_lake(lake_path) as lake, pytest.raises(LakeBusy) as skipped:
                maintain(lake)
            seen.append(skipped.value)
        copy(self, local, name)

    monkeypatch.setattr(BackupTarget, "put", put)
    back_up(lake_path, target)
    monkeypatch.setattr(backups, "MAINTENANCE_SECONDS", 0)
    with files_lock(lake_path, seconds=0), pytest.raises(LakeBusy) as refused:
        back_up(lake_path, target)

    assert "under way" in seen[0].what
    assert "under way" in refused.value.what
    assert refused.value.exit_code == 12


def test_a_file_that_the_lake_lost_or_cut_short_is_named_and_no_backup_is_made(
    lake_path: Path, target: str, tmp_path: Path
) -> None:
    held = rows_of(lake_path)
    back_up(lake_path, target)
    shutil.rmtree(Path(target, "files", "raw"))
    cut, lost = sorted((lake_path / "files" / "raw").rglob("*.parquet"))[:2]
    content = cut.read_bytes()
    cut.write_bytes(content[:-1])
    with pytest.raises(LakeError, match=rf"{cut.name} .* bytes instead of"):
        back_up(lake_path, target)
    cut.write_bytes(content)
    there = lost.rename(tmp_path / "there")
    with pytest.raises(LakeError, match=f"{lost.name} .* is missing"):
        back_up(lake_path, target)
    there.rename(lost)

    with pytest.raises(LakeError, match=r"is incomplete: .* missing or damaged"):
        restore(target, tmp_path / "restored")
    back_up(lake_path, target)

    assert rows_of(restore(target, tmp_path / "restored").lake) == held


def test_a_first_backup_that_was_killed_does_not_block_its_target(
    lake_path: Path, target: str, tmp_path: Path
) -> None:
    part = Path(target, f"{MARK}.{'0a' * 16}{PART}")  # as a kill leaves it, before its rename
    part.parent.mkdir()
    part.write_text("{")
    strange = tmp_path / "other" / f"notes{PART}"
    strange.parent.mkdir()
    strange.write_text("mine")

    back_up(lake_path, target)
    with pytest.raises(LakeError, match="holds files that no backup made"):
        back_up(lake_path, str(strange.parent))

    assert not part.exists()
    assert rows_of(restore(target, tmp_path / "restored").lake) == rows_of(lake_path)


def test_a_flipped_bit_in_a_backup_is_named_by_restore_and_mended_by_verify(
    lake_path: Path, target: str, tmp_path: Path
) -> None:
    done = back_up(lake_path, target)
    name = flip_a_bit(Path(target, "files", "raw"))
    with pytest.raises(LakeError, match=f"{name} of the backup .* changed") as refused:
        restore(target, tmp_path / "restored")
    assert not (tmp_path / "restored" / CATALOG).exists()

    unnoticed = back_up(lake_path, target)
    verified = back_up(lake_path, target, is_verified=True)

    assert "--verify" in refused.value.remedy
    assert {*done.manifest.sha256} == {*done.manifest.files}
    assert (unnoticed.files_copied, unnoticed.files_verified) == (0, 0)
    assert (verified.files_copied, verified.files_replaced) == (1, 1)
    assert verified.files_verified >= len(done.manifest.files)
    assert rows_of(restore(target, tmp_path / "restored").lake) == rows_of(lake_path)


def test_a_restore_that_was_stopped_does_not_keep_a_file_that_changed_meanwhile(
    lake_path: Path, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    back_up(lake_path, target)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fleetlake.care.backups.restore.flush_files", stop)
    with pytest.raises(KeyboardInterrupt):
        restore(target, tmp_path / "restored")
    monkeypatch.undo()
    flip_a_bit(tmp_path / "restored" / "files" / "raw")

    assert rows_of(restore(target, tmp_path / "restored").lake) == rows_of(lake_path)


def test_a_file_of_the_lake_with_a_flipped_bit_is_named_and_not_backed_up(
    lake_path: Path, target: str
) -> None:
    with open_lake(lake_path) as lake, commit_lock(lake_path):
        keep_checksums(lake)
    name = flip_a_bit(lake_path / "files" / "raw")

    with pytest.raises(LakeError, match=f"{name} of the lake changed after being written"):
        back_up(lake_path, target)


def test_a_changed_file_that_only_an_earlier_backup_has_is_an_error_after_the_new_one(
    lake_path: Path, target: str, tmp_path: Path
) -> None:
    back_up(lake_path, target)
    before = {path.name for path in (lake_path / "files").rglob("*.parquet")}
    change_after(lake_path)
    [gone, *_] = sorted(before - {path.name for path in (lake_path / "files").rglob("*.parquet")})
    flip_a_bit(Path(target, "files"), gone)

    with pytest.raises(LakeError, match=f"earlier backups .*{gone}"):
        back_up(lake_path, target, is_verified=True)

    assert rows_of(restore(target, tmp_path / "restored").lake) == rows_of(lake_path)


def flip_a_bit(folder: Path, name: str = "*.parquet") -> str:
    """Flip a bit in the middle of a file; return its name."""
    file = min(folder.rglob(name))
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    return file.name


def test_a_catalog_that_names_a_file_outside_the_lake_is_not_backed_up(
    lake_path: Path, target: str
) -> None:
    with closing(sqlite3.connect(lake_path / CATALOG)) as catalog, catalog:
        catalog.execute("update ducklake_data_file set path = '/x', path_is_relative = 0")

    with pytest.raises(LakeError, match="names a file outside the lake, /x"):
        back_up(lake_path, target)


def test_a_full_disk_is_named_and_leaves_no_part_of_a_file_in_the_backup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = BackupTarget(str(tmp_path / "backup"))

    def full(_self: BackupTarget) -> None:
        raise OSError(ENOSPC, "No space left on device")

    monkeypatch.setattr(BackupTarget, "flush", full)
    with pytest.raises(LakeError) as failure, target.errors():
        target.put_text("a manifest", "manifests/first.json")

    assert failure.value.remedy.startswith("Free some space")
    assert target.sizes() == {}


def test_after_a_failed_copy_the_files_that_wait_are_not_copied() -> None:
    begun: list[str] = []
    ended: list[str] = []
    was_raised = Event()
    files = {"bad": 1} | {str(number): 1 for number in range(200)}

    def copy(name: str) -> None:
        begun.append(name)
        if name == "bad":
            raise OSError(ENOSPC, "No space left on device")
        was_raised.wait(0.1)  # a copy that is under way is awaited, so this is never set before
        ended.append(name)

    with pytest.raises(OSError, match="No space left"):
        copy_all(files, copy, lambda *_: None)
    left_alone = len(files) - len(begun)
    under_way = {*begun} - {*ended, "bad"}
    was_raised.set()

    assert under_way == set()
    assert left_alone > 0


def test_a_damaged_catalog_is_not_backed_up(lake_path: Path, target: str) -> None:
    with (lake_path / CATALOG).open("r+b") as file:
        file.seek(8192)
        file.write(b"\xff" * 100_000)

    with pytest.raises(LakeError, match=r"damaged|malformed"):
        back_up(lake_path, target)

    assert not Path(target, "manifests").exists()


def test_a_catalog_or_manifest_that_was_damaged_is_not_restored_and_the_next_backup_is(
    lake_path: Path, target: str, tmp_path: Path
) -> None:
    done = back_up(lake_path, target)
    catalog = Path(target, done.manifest.catalog)
    good = catalog.read_bytes()
    catalog.write_bytes(good[:-1] + b"x")
    with pytest.raises(LakeError, match=r"catalogs/.* changed after being written"):
        restore(target, tmp_path / "restored")
    catalog.write_bytes(good)
    manifest = Path(target, done.manifest.name)
    content = json.loads(manifest.read_text())
    for text, words in (
        (json.dumps(content | {"files": {"../../x": 1}}), "outside of its folder"),
        (json.dumps(content | {"format": 3}), "has format 3"),
        ("{", "is damaged"),
    ):
        manifest.write_text(text)
        with pytest.raises(LakeError, match=words):
            restore(target, tmp_path / "restored")
    newer = back_up(lake_path, target, keep=1)

    assert (newer.files_copied, newer.files_removed) == (0, 0)
    assert manifest.exists()
    assert rows_of(restore(target, tmp_path / "restored").lake) == rows_of(lake_path)


def test_a_restore_that_was_stopped_is_no_lake_and_goes_on(
    lake_path: Path, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    back_up(lake_path, target)
    place = tmp_path / "restored"
    get = BackupTarget.get

    def cut(self: BackupTarget, name: str, local: Path) -> None:
        if name.startswith("catalogs/"):
            raise KeyboardInterrupt
        get(self, name, local)

    monkeypatch.setattr(BackupTarget, "get", cut)
    with pytest.raises(KeyboardInterrupt):
        restore(target, place)
    for read_only, words in ((True, "no lake"), (False, "has not ended")):
        with pytest.raises(LakeError, match=words), open_lake(place, read_only=read_only):
            pass
    monkeypatch.setattr(BackupTarget, "get", get)
    copied: list[tuple[int, int]] = []

    restore(target, place, on_copied=lambda *sizes: copied.append(sizes))

    assert copied == []
    assert rows_of(place) == rows_of(lake_path)
    assert not (place / RESTORING).exists()


def test_what_cannot_be_backed_up_or_restored_there_is_refused_in_words(
    lake_path: Path, target: str, tmp_path: Path, empty_lake: Path
) -> None:
    back_up(lake_path, target)
    full = tmp_path / "full"
    full.mkdir()
    (full / "file").touch()
    shared = SharedLake(SecretStr("host=db"), "s3://fleet")
    refusals: list[tuple[type[FleetlakeError], str, Callable[[], object]]] = [
        (LakeError, "no lake", lambda: back_up(tmp_path / "none", target)),
        (LakeError, "no backup made", lambda: back_up(lake_path, str(full))),
        (LakeError, "of another lake", lambda: back_up(empty_lake, target)),
        (LakeError, "PostgreSQL", lambda: back_up(shared, target)),
        (LakeError, "PostgreSQL", lambda: restore(target, shared)),
        (UsageError, "overlap", lambda: back_up(lake_path, str(lake_path / "files"))),
        (UsageError, "overlap", lambda: back_up(lake_path, str(tmp_path))),
        (UsageError, "not an address", lambda: back_up(lake_path, "ftp://host/x")),
        (LakeError, "a lake in .* already", lambda: restore(target, lake_path)),
        (LakeError, "not empty", lambda: restore(target, full)),
        (UsageError, "no complete backup", lambda: restore(str(full), tmp_path / "new")),
        (UsageError, "no backup of then", lambda: restore(target, tmp_path / "new", at="then")),
    ]

    for kind, words, call in refusals:
        with pytest.raises(kind, match=words) as refused:
            call()
        assert refused.value.remedy, words
    assert [*full.iterdir()] == [full / "file"]


def test_nobody_else_can_read_a_backup_or_what_is_restored_from_it(
    lake_path: Path, target: str, tmp_path: Path
) -> None:
    back_up(lake_path, target)
    restore(target, tmp_path / "restored")

    written = [*Path(target).rglob("*"), *(tmp_path / "restored").rglob("*")]
    assert len(written) > 100
    assert {stat.S_IMODE(path.stat().st_mode) & 0o077 for path in written} == {0}


@pytest.fixture
def store() -> Iterator[fs.S3FileSystem]:
    """Return an object store on this machine with a bucket `fleet`."""
    with object_store() as opened:
        yield opened


@pytest.mark.proof
def test_an_object_store_holds_backups_as_a_folder_does(
    lake_path: Path, tmp_path: Path, store: fs.S3FileSystem
) -> None:
    target = "s3://fleet/backups"
    first = back_up(lake_path, target)
    with open_lake(lake_path) as lake:
        lake.execute("insert into raw.groups (id) select i + 900 from range(500) r(i)")
    second = back_up(lake_path, target, keep=1)

    restored = restore(target, tmp_path / "restored")
    found = store.get_file_info(fs.FileSelector("fleet/backups", recursive=True))

    assert first.files_copied == len(first.manifest.files)
    assert 0 < second.files_copied == len(second.manifest.files) - len(first.manifest.files)
    assert rows_of(restored.lake) == rows_of(lake_path)
    assert len([one for one in found if one.path.endswith(".sqlite")]) == 1
    with pytest.raises(LakeError, match="could not be read or written"):
        back_up(lake_path, "s3://no-such-bucket/backups")


@pytest.mark.usefixtures("closed_files")
def test_a_copied_catalog_is_one_file_that_names_no_file_to_be_deleted(
    lake_path: Path, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(lake_path / CATALOG)) as source:
        source.execute("pragma journal_mode = wal")
        source.execute(
            "insert into ducklake_files_scheduled_for_deletion values (1, 'gone.parquet', 1, 'now')"
        )
        source.commit()

    copy_catalog(lake_path, tmp_path / "copy")

    with closing(sqlite3.connect(tmp_path / "copy")) as copy:
        assert copy.execute("pragma journal_mode").fetchone() == ("delete",)
        named = "select count(*) from ducklake_files_scheduled_for_deletion"
        assert copy.execute(named).fetchone() == (0,)


@pytest.mark.usefixtures("closed_files")
def test_a_restored_catalog_appears_once_its_files_are_on_disk(
    lake_path: Path,
    target: str,
    tmp_path: Path,
    flushes: list[Callable[[], None]],
) -> None:
    back_up(lake_path, target)
    new, states = tmp_path / "new", list[tuple[bool, bool]]()
    flushes.append(lambda: states.append(((new / CATALOG).exists(), (new / RESTORING).exists())))

    restore(target, new)

    assert states == [(False, True), (True, False)]
