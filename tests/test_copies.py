"""Copies of a lake that cannot be renewed: the receipt says so, and the others are attempted."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from fleetlake.dashboard.report import NEWEST
from fleetlake.errors import ExportFailed
from fleetlake.privacy import erase as erasing
from fleetlake.privacy.copies import earlier_backups
from fleetlake.privacy.receipt import raise_unfinished
from fleetlake.settings import Settings


def test_a_snapshot_that_cannot_be_published_ends_neither_the_receipt_nor_the_removal_of_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # away from the exports of this project
    settings = Settings(
        lake=tmp_path / "lost", published=tmp_path / "published", reports=tmp_path / "reports"
    )
    settings.reports.mkdir()
    (settings.reports / NEWEST).write_text("Ann")
    settings.published.symlink_to(tmp_path)  # of before

    told = [*erasing._renew_copies(settings, lambda _: None)]  # noqa: SLF001 - needs no erasure

    assert [one.outlet.partition(" ")[0] for one in told] == ["published", "reports", "exports"]
    assert [one.is_failed for one in told] == [True, False, False]
    assert told[1].done == "1 report removed"
    assert list(settings.reports.iterdir()) == []
    with pytest.raises(ExportFailed, match=r"^published snapshots in \S+ may still hold"):
        raise_unfinished(told)


def test_a_target_of_backups_that_cannot_be_read_does_not_hide_the_others(tmp_path: Path) -> None:
    told = [*earlier_backups(["nonsense://key:secret@x", str(tmp_path)], datetime.now(UTC))]

    assert [one.is_failed for one in told] == [True, False]
    assert "secret" not in repr(told)
    assert told[1].outlet == f"backups in {tmp_path}"
    assert told[1].done == "no backup is there", "a misspelt folder is no all-clear"
