"""Small files are replaced whole, by one process or several at once."""

import os
from pathlib import Path

import pytest

from fleetlake.machine import atomic_files
from fleetlake.machine.atomic_files import unfinished, write_atomically


def test_two_processes_that_replace_a_file_at_once_leave_one_whole_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, flush = tmp_path / "fleet.prom", os.fsync

    def another_writes(descriptor: int) -> None:
        monkeypatch.setattr(atomic_files.os, "fsync", flush)
        write_atomically(file, "of another process")
        assert file.read_text("utf-8") == "of another process"
        flush(descriptor)

    monkeypatch.setattr(atomic_files.os, "fsync", another_writes)
    write_atomically(file, "of this one")

    assert file.read_text("utf-8") == "of this one"
    assert list(tmp_path.iterdir()) == [file]


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "fleet.prom"
    write_atomically(file, "old")

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic_files.os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        write_atomically(file, "new")

    assert file.read_text("utf-8") == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_what_killed_processes_left_is_removed_a_day_later(tmp_path: Path) -> None:
    file = tmp_path / "fleet.prom"
    old, new, of_another = (
        tmp_path / f"{name}.{'0' * 31}{digit}.new"
        for digit, name in enumerate(["fleet.prom", "fleet.prom", "fleet-prom"])
    )
    for left in (old, new, of_another):
        left.touch()
        os.utime(left, (0, 0))
    os.utime(new)

    write_atomically(file, "whole")

    assert set(tmp_path.iterdir()) == {file, new, of_another}
    assert set(unfinished(tmp_path, r"fleet.prom")) == {new, of_another}
