"""Which commit an installation was built from, and wheels that are the same twice."""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

from fleetlake.machine import source_commit as module
from fleetlake.machine.source_commit import BAKED, commit_of_clone, source_commit

ROOT = Path(__file__).parents[1]
BUILD = "import sys; from hatchling.build import *; print(build_{}(sys.argv[1]))"
GIT = {
    "GIT_AUTHOR_NAME": "someone",
    "GIT_AUTHOR_EMAIL": "someone@example.com",
    "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
    "GIT_COMMITTER_NAME": "someone",
    "GIT_COMMITTER_EMAIL": "someone@example.com",
    "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
    "GIT_CONFIG_GLOBAL": os.devnull,
}


def git(folder: Path, *words: str) -> str:
    """Run git in a folder; return what it prints."""
    command = ["git", "-C", folder, *words]
    env = {"PATH": os.environ["PATH"], **GIT}
    return subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Return a repository with one committed file."""
    folder = tmp_path / "clone"
    folder.mkdir()
    (folder / "file").write_text("as committed")
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "first")
    return folder


def test_the_commit_of_a_clone_is_what_git_has_checked_out(clone):
    assert commit_of_clone(clone) == git(clone, "rev-parse", "HEAD")[:12]


def test_a_changed_file_is_told_and_a_tag_is_not_taken_for_a_commit(clone):
    commit = git(clone, "rev-parse", "HEAD")[:12]
    git(clone, "tag", "--annotate", "v9", "--message", "a release")
    (clone / "file").write_text("changed")

    assert commit_of_clone(clone) == f"{commit}-dirty"


def test_a_git_hook_of_another_repository_does_not_change_the_commit(clone, monkeypatch):
    monkeypatch.setenv("GIT_DIR", str(clone / "elsewhere"))

    assert commit_of_clone(clone) == git(clone, "rev-parse", "HEAD")[:12]


def test_a_folder_inside_another_repository_has_no_commit(clone):
    inside = clone / "unpacked"
    inside.mkdir()

    assert commit_of_clone(inside) is None


def test_the_commit_is_unknown_without_git_or_in_a_damaged_repository(clone, monkeypatch):
    (clone / ".git" / "HEAD").unlink()
    assert commit_of_clone(clone) is None

    monkeypatch.setenv("PATH", str(clone))
    assert commit_of_clone(clone) is None


def test_a_wheel_tells_the_commit_that_it_carries(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_PACKAGE", tmp_path / "site-packages" / "fleetlake")
    assert source_commit() is None

    (tmp_path / "site-packages" / "fleetlake").mkdir(parents=True)
    (tmp_path / "site-packages" / "fleetlake" / BAKED).write_text("0123456789ab\n")
    assert source_commit() == "0123456789ab"


def copied_clone(folder: Path, *, umask: int) -> Path:
    """Return a copy of this project as a repository with one commit, the same for each copy."""
    folder.mkdir()
    private = shutil.ignore_patterns(".*", "__pycache__", "data", "dist", "target", "logs")
    before = os.umask(umask)
    try:
        for source in sorted(ROOT.iterdir(), reverse=bool(umask)):
            if source.name in {"src", "sql", "flows"}:
                shutil.copytree(source, folder / source.name, ignore=private, copy_function=written)
            elif source.is_file() and source.name != ".git":
                written(source, folder / source.name)
    finally:
        os.umask(before)
    git(folder, "init", "--quiet")
    git(folder, "config", "core.fileMode", "false")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "a release")
    return folder


def written(source: str | Path, target: str | Path) -> None:
    """Copy the content of a file alone: its mode is the umask's, its time is now."""
    Path(target).write_bytes(Path(source).read_bytes())


def built(clone: Path, target: Path, what: str = "wheel", **variables: str) -> Path:
    """Build a clone with hatchling, as pip does; return the file."""
    target.mkdir(exist_ok=True)
    env = {"PATH": os.environ["PATH"], "SOURCE_DATE_EPOCH": "1767225600", **variables}
    command = [sys.executable, "-c", BUILD.format(what), target]
    done = subprocess.run(
        command, cwd=clone, env=env, check=True, capture_output=True, text=True, timeout=300
    )
    return target / done.stdout.strip()


@pytest.mark.release
def test_two_builds_of_a_commit_are_the_same_wheel_and_tell_the_commit(tmp_path):
    first = copied_clone(tmp_path / "first", umask=0o022)
    second = copied_clone(tmp_path / "second", umask=0o077)
    commit = git(first, "rev-parse", "HEAD")[:12]
    assert git(second, "rev-parse", "HEAD")[:12] == commit

    one = built(first, tmp_path / "one", TZ="America/Denver", PYTHONHASHSEED="1")
    two = built(second, tmp_path / "two", TZ="Asia/Tokyo", PYTHONHASHSEED="2")
    later = built(second, tmp_path / "later", SOURCE_DATE_EPOCH="1767225999")

    assert sha256(one) == sha256(two)
    assert sha256(later) != sha256(one), "the hash sees what is in the file"
    assert version_of(one, tmp_path / "unpacked") == f"fleetlake {declared()} (commit {commit})"


@pytest.mark.release
def test_a_wheel_built_from_a_source_archive_tells_the_commit_of_the_archive(tmp_path):
    clone = copied_clone(tmp_path / "clone", umask=0o022)
    commit = git(clone, "rev-parse", "HEAD")[:12]

    with tarfile.open(built(clone, tmp_path / "archive", "sdist")) as archive:
        archive.extractall(tmp_path / "archive", filter="data")
    [unpacked] = (path for path in (tmp_path / "archive").iterdir() if path.is_dir())
    wheel = built(unpacked, tmp_path / "wheel")

    assert version_of(wheel, tmp_path / "unpacked") == f"fleetlake {declared()} (commit {commit})"


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def declared() -> str:
    """Return the version of this project, which the wheels have too."""
    return version("fleetlake")


def version_of(wheel: Path, folder: Path) -> str:
    """Return what `fleetlake --version` prints where a wheel is installed."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    done = subprocess.run(
        [sys.executable, "-m", "fleetlake", "--version"],
        env={"PATH": "/nowhere", "PYTHONPATH": str(folder)},
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()
