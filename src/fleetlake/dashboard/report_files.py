"""Reports as files: the newest, which is replaced, and dated ones, of which the latest are kept.

Both hold names and places. So after an erasure none of them stays as it was, not even one that was
being written meanwhile.
"""

import re
from collections.abc import Callable
from pathlib import Path

from fleetlake.dashboard.report import Report, read_report
from fleetlake.lake_address import DEMO_MARK
from fleetlake.machine.atomic_files import unfinished, write_atomically
from fleetlake.machine.io_faults import output_lost
from fleetlake.publishing.snapshot_folders import description_of
from fleetlake.settings import Settings

NEWEST = "fleet-report.html"
KEEP = 8
"""Dated reports that are kept: two months of weekly ones."""

_DATED = re.compile(r"fleet-report-\d{4}-\d{2}-\d{2}\.html")


def reports_folder(settings: Settings) -> Path:
    """Return the folder of the reports; a demo lake has its own, as for what it publishes."""
    if (settings.lake / DEMO_MARK).exists():
        return settings.lake / "reports"
    return settings.reports


def write_report(report: Report, file: Path, *, makes_folder: bool = False) -> int:
    """Write a report to a file, or replace it; return its bytes.

    Raises: OutputLost if the file cannot be written, or its folder is missing and not to be made.
    """
    try:
        if makes_folder:
            file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, report.html)
    except OSError as error:
        otherwise = ": --output of the command, FLEETLAKE_REPORTS of scheduled reports"
        raise output_lost("The report", file, error, otherwise=otherwise) from None
    return len(report.html.encode())


def write_newest_report(published: Path, folder: Path) -> Path:
    """Replace the folder's report over the last 7 days; return its file.

    Raises: LakeError without a snapshot; OutputLost if it cannot be written.
    """
    return _write_current(published, lambda _: folder / NEWEST)


def write_dated_report(
    published: Path, folder: Path, *, last: str = "7d", keep: int = KEEP
) -> Path:
    """Write a report named by the day of its newest event, and remove all but the latest `keep`.

    Returns its file; a report of the same day is replaced. Raises: as above.
    """
    file = _write_current(
        published, lambda report: folder / f"fleet-report-{report.day.isoformat()}.html", last=last
    )
    for old in dated_reports(folder)[max(keep, 1) :]:
        old.unlink(missing_ok=True)
    return file


def _write_current(published: Path, named: Callable[[Report], Path], *, last: str = "7d") -> Path:
    """Write a report of the newest snapshot; return its file.

    An erasure publishes, then removes the reports. So a report whose snapshot was replaced before
    its file was there is written again: it may hold what was erased.
    """
    while True:
        report = read_report(published, last=last)
        file = named(report)
        write_report(report, file, makes_folder=True)
        if description_of(published).get("snapshot") == report.snapshot:
            return file
        file.unlink(missing_ok=True)


def dated_reports(folder: Path) -> list[Path]:
    """Return the dated reports of a folder, the latest first."""
    if not folder.is_dir():
        return []
    found = (file for file in folder.iterdir() if _DATED.fullmatch(file.name))
    return sorted(found, reverse=True)


def remove_reports(folder: Path) -> int:
    """Remove the reports of a folder, the newest and all dated ones; return how many there were."""
    if not folder.is_dir():
        return 0
    found = dated_reports(folder) + [file for file in [folder / NEWEST] if file.is_file()]
    for file in found:
        file.unlink()
    for left in unfinished(folder, f"{re.escape(NEWEST)}|{_DATED.pattern}"):
        left.unlink(missing_ok=True)
    return len(found)
