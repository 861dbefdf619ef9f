"""Permissions of the files that fleetlake creates, and its handling of other users' files."""

import fcntl
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from pydantic import SecretStr
from typer.testing import CliRunner

from fleetlake.care.backups.backup_target import BackupTarget
from fleetlake.cli import app
from fleetlake.errors import ExportFailed, LakeError, SettingsError, StreamBusy
from fleetlake.exporters import TARGETS
from fleetlake.exporters.export import export
from fleetlake.lake import Lake, open_lake
from fleetlake.lake.attach import CATALOG, FILES
from fleetlake.lake.locks import commit_lock, stream_lock
from fleetlake.machine import atomic_files, file_locks, ownership, umask
from fleetlake.machine.atomic_files import write_atomically
from fleetlake.marts.build import build_marts
from fleetlake.monitoring.doctor import exposed_paths, run_checks
from fleetlake.publishing.publish import publish
from fleetlake.receiving.drain import drain_all
from fleetlake.receiving.journal_table import JOURNAL_FILE
from fleetlake.service.rate_limit import CallLimit
from fleetlake.settings import Settings, load_settings
from tests.support.alert_messages import push

STREAM = "accounts"
STRANGER = 54321


@pytest.fixture(autouse=True)
def own_umask() -> Iterator[None]:
    """Start with a shell's usual umask, and restore the umask of this process."""
    before = os.umask(0o022)
    umask._is_applied = False  # noqa: SLF001 - a process has one umask, and tests share a process
    yield
    os.umask(before)
    umask._is_applied = False  # noqa: SLF001 - likewise


def modes_below(folder: Path) -> set[str]:
    """Return the kinds and modes of a folder and everything in it, except links."""
    found = [folder, *folder.rglob("*")]
    kinds = {True: "folder", False: "file"}
    return {
        f"{kinds[p.is_dir()]} {stat.S_IMODE(p.stat().st_mode):o}"
        for p in found
        if not p.is_symlink()
    }


def give_away(path: Path, monkeypatch: pytest.MonkeyPatch, *, owner: int = STRANGER) -> None:
    """Let a path belong to another user; if that is not permitted, become another user instead."""
    if os.geteuid() == 0:
        os.chown(path, owner, -1, follow_symlinks=False)
    else:
        monkeypatch.setattr(ownership.os, "geteuid", lambda: owner)


@pytest.mark.parametrize(
    ("setting", "folder", "file"),
    [(None, "700", "600"), pytest.param("027", "750", "640", marks=pytest.mark.proof)],
)
def test_a_lake_its_locks_and_its_state_follow_the_umask(
    tmp_path, monkeypatch, setting, folder, file
):
    if setting:
        monkeypatch.setenv("FLEETLAKE_UMASK", setting)
    lake = tmp_path / "new" / "lake"

    with open_lake(lake) as opened, stream_lock(lake, STREAM):
        opened.execute("create table lake.big as select range as n from range(1000)")
        opened.execute("call lake.set_option('data_inlining_row_limit', 0)")
        opened.execute("insert into lake.big select range from range(100000)")
        CallLimit(tmp_path / "state", account="a", calls_per_minute=1).close()
        locks = modes_below(lake / "locks")

    assert any((lake / "files").rglob("*.parquet"))
    # Lock files and the call limit are for one user, even if others may read the lake.
    assert locks == {f"folder {folder}", "file 600"}
    assert modes_below(lake) == {f"folder {folder}", f"file {file}", "file 600"}
    assert modes_below(tmp_path / "state") == {"folder 700", "file 600"}
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == int(folder, 8)


@pytest.mark.parametrize(
    ("setting", "modes"),
    [
        pytest.param("077", ("700", "600"), marks=pytest.mark.proof),
        ("027", ("750", "640")),
    ],
)
def test_published_and_exported_files_follow_the_umask(
    lake_path, tmp_path, monkeypatch, setting, modes
):
    folder, file = modes
    monkeypatch.setenv("FLEETLAKE_UMASK", setting)
    with open_lake(lake_path) as lake:
        lake.execute("create table lake.marts.trips as select range as n from range(10)")

    publish(lake_path, tmp_path / "open" / "published")
    with open_lake(lake_path, read_only=True) as lake:
        for target in ("parquet", "delta", "iceberg"):
            where = SecretStr(str(tmp_path / "exports" / target))
            assert export(lake, TARGETS[target], where)

    locks = {"file 600"}  # for one user, even if others may read
    assert modes_below(tmp_path / "open") == {f"folder {folder}", f"file {file}"} | locks
    assert modes_below(tmp_path / "exports") == {f"folder {folder}", f"file {file}"}


def test_a_command_passes_its_umask_to_child_processes(tmp_path, monkeypatch):
    monkeypatch.setenv("FLEETLAKE_UMASK", "027")
    monkeypatch.chdir(tmp_path)

    CliRunner().invoke(app, ["simulate", "--print-env"])
    made = "import pathlib; pathlib.Path('made').touch()"
    subprocess.run([sys.executable, "-c", made], check=True)

    assert modes_below(tmp_path / "made") == {"file 640"}


def test_the_umask_of_the_settings_file_is_used_if_the_environment_has_none(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("fleetlake.toml").write_text('umask = "037"\n')

    assert umask.configured_umask() == 0o037
    monkeypatch.setenv("FLEETLAKE_UMASK", "007")
    assert umask.configured_umask() == 0o007


@pytest.mark.parametrize("value", ["rw-r--r--", "088", "777", "0o27x", "12345", "-22"])
def test_an_invalid_umask_is_refused_and_grants_no_rights(monkeypatch, value):
    monkeypatch.setenv("FLEETLAKE_UMASK", value)

    with pytest.raises(SettingsError, match="FLEETLAKE_UMASK: must"):
        load_settings()
    assert umask.configured_umask() == 0o077


def permissions(settings) -> tuple[str, str]:
    """Return what doctor reports about permissions, and the remedy."""
    check = next(check for check in run_checks(settings) if check.name == "permissions")
    return check.found, check.error.remedy if check.error else ""


@pytest.mark.proof
def test_doctor_names_files_that_others_can_read_and_the_command_that_fixes_them(
    sim, tmp_path, monkeypatch
):
    settings = sim.settings(base_url=None, v3_base_url=None)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect home"))
    assert "no rights beyond FLEETLAKE_UMASK=077" in permissions(settings)[0]
    for name in (".published", "state", "prefect home"):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name).chmod(0o700)
    password = tmp_path / "prefect home" / "fleetlake-auth"
    password.touch(0o600)
    settings.lake.chmod(0o755)
    (tmp_path / ".published").chmod(0o775)
    (tmp_path / "state").chmod(0o711)
    password.chmod(0o604)

    found, remedy = permissions(settings)

    assert f"lake {settings.lake} can be read by other users" in found
    assert f"{tmp_path}/.published can be read and written by other users" in found
    assert f"{password} can be read by other users" in found
    assert f"chmod -R go-rwx {settings.lake} && chmod" in remedy
    assert f"chmod -R go-rwx '{password}'" in remedy
    assert stat.S_IMODE(settings.lake.stat().st_mode) == 0o755, "reported, not changed"
    for command in remedy.removeprefix("Run: ").partition(". To share")[0].split(" && "):
        subprocess.run(command, shell=True, check=True)
    assert permissions(settings)[1] == ""


@pytest.mark.proof
@pytest.mark.parametrize("part", ["catalog.sqlite", "files", "locks", "dbt"])
def test_doctor_inspects_each_part_of_a_lake_that_others_can_enter(sim, part):
    settings = sim.settings(base_url=None, v3_base_url=None)
    settings.lake.chmod(0o711)
    (settings.lake / "dbt").mkdir(mode=0o700, exist_ok=True)
    (settings.lake / part).chmod(0o704)

    found, _ = permissions(settings)

    assert f"lake {settings.lake} can be read by other users" in found


@pytest.mark.parametrize("mode", [0o640, 0o602])
def test_doctor_wants_push_secrets_for_their_owner_only_whatever_the_umask(tmp_path, mode):
    settings = Settings(umask="027", push_secrets_file=tmp_path / "push-secrets")
    settings.push_secrets_file.touch(0o600)
    before = [*exposed_paths(settings, published=tmp_path / "published")]
    settings.push_secrets_file.chmod(mode)

    after = [*exposed_paths(settings, published=tmp_path / "published")]

    assert before == []
    [exposed] = after
    assert (exposed.name, exposed.path) == ("push secrets", settings.push_secrets_file)
    assert exposed.command == f"chmod -R go-rwx {settings.push_secrets_file}"


@pytest.mark.parametrize("part", ["", FILES, "locks", CATALOG])
def test_doctor_names_the_part_of_a_lake_that_this_user_may_not_write(lake_path, monkeypatch, part):
    allowed = os.access
    monkeypatch.setattr(
        os, "access", lambda path, mode: path != lake_path / part and allowed(path, mode)
    )

    found = next(check for check in run_checks(Settings(lake=lake_path)) if check.name == "lake")

    assert found.error is not None
    assert f"{lake_path / part}: Permission denied." in found.found


@pytest.mark.proof
def test_doctor_accepts_a_lake_that_the_group_may_read_but_not_write(sim):
    settings = sim.settings(base_url=None, v3_base_url=None, umask="027")
    settings.lake.chmod(0o750)
    assert permissions(settings)[1] == ""

    (settings.lake / "catalog.sqlite").chmod(0o660)

    found, remedy = permissions(settings)
    assert f"lake {settings.lake} can be written by other users" in found
    assert f"chmod -R g-w,o-rwx {settings.lake}" in remedy


def test_doctor_names_a_folder_of_another_user_once_and_the_command_that_takes_it_over(
    sim, monkeypatch
):
    settings = sim.settings(base_url=None, v3_base_url=None)
    settings.lake.chmod(0o755)
    give_away(settings.lake, monkeypatch)

    [lake] = [
        exposed
        for exposed in exposed_paths(settings, published=settings.published)
        if exposed.path == settings.lake
    ]

    assert lake.name == "lake"
    assert lake.how.startswith("belongs to user ")
    assert lake.command == f"chown -R $(id -u) {settings.lake}"


@pytest.mark.parametrize("is_in_store", [False, True])
def test_doctor_inspects_the_exports_the_reports_and_the_files_of_a_shared_lake(
    tmp_path, monkeypatch, is_in_store
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    files = "s3://bucket/lake" if is_in_store else str(tmp_path / "files")
    exports = {"csv": str(tmp_path / "csv"), "delta": "s3://bucket/delta"}
    reports = tmp_path / "reports"
    settings = Settings(lake="postgres:host=db", lake_files=files, exports=exports, reports=reports)
    folders = {"export csv": tmp_path / "csv", "build folder": settings.lake / "dbt"}
    folders["reports"] = reports
    if not is_in_store:
        folders["files of the lake"] = tmp_path / "files"
    for folder in folders.values():
        folder.mkdir(parents=True)
        folder.chmod(0o750)

    found = {e.name: e for e in exposed_paths(settings, published=tmp_path / "published")}

    assert {name: found[name].path for name in folders} == folders
    assert {found[name].how for name in folders} == {"can be read by other users"}
    assert found.keys() & {"lake", "export delta", "files of the lake"} == folders.keys() & {
        "files of the lake"
    }


@pytest.mark.proof
def test_doctor_names_a_settings_file_with_keys_that_others_can_read(sim, tmp_path, monkeypatch):
    settings = sim.settings(base_url=None, v3_base_url=None)
    monkeypatch.chdir(tmp_path)
    file = Path("fleetlake.toml")
    file.write_text("concurrency = 4\n")
    file.chmod(0o644)
    assert permissions(settings)[1] == ""

    file.write_text('mgr_api_key = "secret-key"\n')

    found, remedy = permissions(settings)
    assert "settings" in found
    assert "fleetlake.toml can be read" in found
    assert "secret-key" not in found + remedy


@pytest.mark.parametrize("name", [STREAM, "commit"])
def test_a_lock_file_of_another_user_is_reported_at_once(lake_path, monkeypatch, name):
    def hold():
        return commit_lock(lake_path) if name == "commit" else stream_lock(lake_path, name)

    with hold():
        file = lake_path / "locks" / f"{name}.lock"
    give_away(file, monkeypatch)

    with pytest.raises(LakeError, match=f"{file} belongs to user") as reported, hold():
        pass

    assert not isinstance(reported.value, StreamBusy)
    assert "another process" not in reported.value.what


def test_a_lock_held_by_a_process_of_another_user_is_reported(lake_path, monkeypatch):
    with stream_lock(lake_path, STREAM):
        pass
    file = lake_path / "locks" / f"{STREAM}.lock"
    with file.open() as held:  # reading is enough to lock a file
        fcntl.flock(held, fcntl.LOCK_EX)
        monkeypatch.setattr(file_locks, "_holder", lambda _: STRANGER)
        with (
            pytest.raises(LakeError, match="is held by a process of user") as reported,
            stream_lock(lake_path, STREAM),
        ):
            pass

    assert not isinstance(reported.value, StreamBusy)


def test_the_kernels_list_says_which_user_holds_a_lock(tmp_path, monkeypatch):
    file = tmp_path / "a.lock"
    file.touch()
    found = file.stat()
    device = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    kernels_list = tmp_path / "locks"
    kernels_list.write_text(
        f"1: -> FLOCK ADVISORY WRITE 1 {device} 0 EOF\n"
        f"2: FLOCK ADVISORY WRITE {os.getpid()} {device} 0 EOF\n"
    )
    monkeypatch.setattr(file_locks, "_KERNELS_LIST", kernels_list)

    assert file_locks._holder(file) == os.geteuid()  # noqa: SLF001 - the message depends on it
    kernels_list.write_text("")
    assert file_locks._holder(file) is None  # noqa: SLF001 - likewise


def test_a_symbolic_link_planted_as_a_lock_file_is_refused_and_its_target_left_alone(lake_path):
    target = lake_path.parent / "precious"
    target.write_text("as it was")
    file = lake_path / "locks" / f"{STREAM}.lock"
    file.unlink(missing_ok=True)
    file.symlink_to(target)

    with pytest.raises(LakeError, match="is a symbolic link"), stream_lock(lake_path, STREAM):
        pass

    assert target.read_text() == "as it was"


@pytest.mark.parametrize("part", ["", "locks", "files", "catalog.sqlite", ".ready"])
def test_a_lake_of_another_user_is_not_written(lake_path, monkeypatch, part):
    give_away(lake_path / part, monkeypatch)

    with (
        pytest.raises(LakeError, match="belongs to user"),
        open_lake(lake_path),
    ):
        pass


def test_a_catalog_that_another_user_planted_as_a_link_is_not_written(tmp_path, monkeypatch):
    lake, elsewhere = tmp_path / "lake", tmp_path / "elsewhere"
    lake.mkdir()
    (lake / "catalog.sqlite").symlink_to(elsewhere)
    give_away(lake / "catalog.sqlite", monkeypatch)

    with pytest.raises(LakeError, match="belongs to user"), open_lake(lake):
        pass

    assert not elsewhere.exists()


def test_a_folder_that_another_user_planted_as_a_link_is_not_written(lake_path, monkeypatch):
    elsewhere = lake_path.parent / "elsewhere"
    elsewhere.mkdir()
    shutil.rmtree(lake_path / "locks")
    (lake_path / "locks").symlink_to(elsewhere)
    give_away(lake_path / "locks", monkeypatch)

    with pytest.raises(LakeError, match="belongs to user"), open_lake(lake_path):
        pass

    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("name", [".published", "lake/dbt", "state"])
def test_files_that_another_user_created_where_fleetlake_writes_are_not_used(
    lake_path, tmp_path, monkeypatch, name
):
    (tmp_path / name).mkdir(parents=True)
    give_away(tmp_path / name, monkeypatch)
    acts = {
        ".published": lambda: publish(lake_path, tmp_path / "published"),
        "lake/dbt": lambda: build_marts(lake_path),
        "state": lambda: CallLimit(tmp_path / "state", account="a", calls_per_minute=1),
    }

    with pytest.raises((LakeError, SettingsError), match="belongs to user"):
        acts[name]()

    assert list((tmp_path / name).iterdir()) == []


@pytest.fixture(scope="module")
def trips(empty_lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """Return a lake with a mart to export."""
    path = Path(shutil.copytree(empty_lake, tmp_path_factory.mktemp("trips") / "lake"))
    with open_lake(path) as lake:
        lake.execute("create table lake.marts.trips as select 1 as trip_id")
        yield lake


@pytest.mark.parametrize(
    ("target", "part"),
    [
        ("parquet", ""),
        ("parquet", "trips"),
        ("csv", "trips"),
        ("delta", ""),
        ("delta", "trips"),
        ("iceberg", ""),
        ("iceberg", "fleet"),
    ],
)
def test_an_export_does_not_go_into_a_folder_of_another_user(
    trips, tmp_path, monkeypatch, target, part
):
    (tmp_path / "out" / part).mkdir(parents=True)
    give_away(tmp_path / "out" / part, monkeypatch)

    with pytest.raises(ExportFailed, match="belongs to user"):
        export(trips, TARGETS[target], SecretStr(str(tmp_path / "out")), ["trips"])

    assert not any((tmp_path / "out").rglob("*.parquet"))
    assert list((tmp_path / "out" / part).iterdir()) == [] or target == "iceberg"


def test_a_link_planted_where_calls_are_counted_is_refused(tmp_path):
    limit = CallLimit(tmp_path, account="a", calls_per_minute=1)
    limit.close()
    [ring] = tmp_path.glob("*.ring")
    ring.rename(tmp_path / "elsewhere")
    ring.symlink_to("elsewhere")

    with pytest.raises(SettingsError, match="cannot be stored"):
        CallLimit(tmp_path, account="a", calls_per_minute=1)


def test_a_link_planted_where_a_file_is_replaced_is_not_followed(tmp_path, monkeypatch):
    (tmp_path / "ours").write_text("ours")
    monkeypatch.setattr(atomic_files, "uuid4", lambda: UUID(int=0))
    planted = tmp_path / f"secrets.{'0' * 32}.new"
    planted.symlink_to("ours")

    with pytest.raises(FileExistsError):
        write_atomically(tmp_path / "secrets", "new", mode=0o600)
    planted.unlink()
    write_atomically(tmp_path / "secrets", "new", mode=0o600)

    assert [(tmp_path / name).read_text() for name in ("ours", "secrets")] == ["ours", "new"]


def test_a_file_for_its_owner_only_can_be_opened_by_nobody_else_from_the_beginning(
    tmp_path, monkeypatch
):
    modes = []
    monkeypatch.setattr(os, "fchmod", lambda file, _: modes.append(os.fstat(file).st_mode & 0o777))

    write_atomically(tmp_path / "secrets", "new", mode=0o600)

    assert modes == [0o600]


def test_a_journal_that_another_user_planted_is_not_read(lake_path, tmp_path, monkeypatch):
    push(tmp_path / "journal", {"type": "reboot"})
    give_away(tmp_path / "journal" / JOURNAL_FILE, monkeypatch)

    with pytest.raises(LakeError, match="belongs to user"):
        drain_all(lake_path, tmp_path / "journal")


def test_up_refuses_a_folder_that_another_user_made(tmp_path, monkeypatch):
    (tmp_path / "prefect.yaml").touch()
    (tmp_path / "data/up").mkdir(parents=True)
    give_away(tmp_path / "data/up", monkeypatch)
    monkeypatch.chdir(tmp_path)

    done = CliRunner().invoke(app, ["prefect", "up", "--port", "45999"])

    assert isinstance(done.exception, LakeError)
    assert "data/up belongs to user" in done.exception.what


@pytest.mark.parametrize("part", ["", FILES, "catalogs", "manifests"])
def test_a_backup_is_refused_if_any_part_of_it_belongs_to_another_user(tmp_path, monkeypatch, part):
    target = BackupTarget(str(tmp_path / "backup"))
    (tmp_path / "backup" / part).mkdir(parents=True)
    target.require_own()

    give_away(tmp_path / "backup" / part, monkeypatch)

    with pytest.raises(LakeError, match="a folder of your own"):
        target.require_own()
