"""The simulated disk: it keeps what was flushed, and can lose everything else."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.power.disk import Disk, FileSystem, Operation

SEEDS = range(40)
After = Callable[..., set[str | None]]


def done(op: str, fd: int = -1, path: str = "", other: str = "", data: bytes = b"") -> Operation:
    return Operation(op=op, pid=1, fd=fd, path=path, other=other, data=data, offset=0)


@pytest.fixture(params=[*FileSystem])
def after(request: pytest.FixtureRequest, tmp_path: Path) -> After:
    """Return a function that gives all contents that `file` has after power cuts."""
    root = tmp_path / "disk"

    def contents(*recorded: Operation, system: FileSystem = request.param) -> set[str | None]:
        found = set()
        for seed in SEEDS:
            root.mkdir(exist_ok=True)
            (root / "file").write_text("old")
            disk = Disk(root).play(recorded, system)
            disk.cut_power(system, random.Random(seed))
            found.add((root / "file").read_text() if (root / "file").exists() else None)
            for path in root.iterdir():
                path.unlink()
        return found

    return contents


def replacing(root: Path, *, is_flushed: bool) -> list[Operation]:
    """Return the operations that replace `file` by a new one."""
    new, file = str(root / "new"), str(root / "file")
    flush = [done("f", 3)] if is_flushed else []
    return [
        done("c", 3, new),
        done("w", 3, data=b"new"),
        *flush,
        done("x", 3),
        done("r", path=new, other=file),
    ]


def test_a_file_that_was_flushed_before_its_rename_is_the_old_or_the_new_one(
    after: After, tmp_path: Path
) -> None:
    assert after(*replacing(tmp_path / "disk", is_flushed=True)) == {"old", "new"}


def test_a_file_that_was_not_flushed_before_its_rename_may_be_empty(
    after: After, tmp_path: Path
) -> None:
    assert after(*replacing(tmp_path / "disk", is_flushed=False)) >= {"old", "new", ""}


def test_after_a_flush_of_the_whole_disk_everything_before_it_is_certain(
    after: After, tmp_path: Path
) -> None:
    recorded = replacing(tmp_path / "disk", is_flushed=False)

    assert after(*recorded, done("s")) == {"new"}


def test_a_removal_may_be_undone_until_its_folder_is_flushed(after: After, tmp_path: Path) -> None:
    root = tmp_path / "disk"
    removed = done("u", path=str(root / "file"))

    assert after(removed) == {"old", None}
    assert after(removed, done("o", 4, str(root)), done("f", 4)) == {None}


def test_only_a_journal_makes_a_removal_certain_by_flushing_another_file(
    after: After, tmp_path: Path
) -> None:
    root = tmp_path / "disk"
    recorded = [done("u", path=str(root / "file")), done("c", 5, str(root / "b")), done("f", 5)]

    assert after(*recorded, system=FileSystem.JOURNAL) == {None}
    assert after(*recorded, system=FileSystem.STRICT) == {"old", None}
