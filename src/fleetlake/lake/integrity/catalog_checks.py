"""Checking the catalog: the pages of its SQLite file.

SQLite keeps no checksums, so a changed value within a page is found only if it contradicts another
one, such as a file's size.
"""

import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from fleetlake.errors import LakeBusy
from fleetlake.lake.attach import BUSY_MILLISECONDS, CATALOG
from fleetlake.lake.locks import open_lock
from fleetlake.machine.io_faults import io_fault

_MOST_FAULTS = 10


def page_faults(lake: Path) -> list[str]:
    """Return what SQLite finds wrong with the pages of a catalog in a folder.

    This process must not have the lake open: closing the file here would release the locks of
    DuckDB's own SQLite. Raises: LakeError, SettingsError if the disk or another fault of the
    machine prevents the check.
    """
    address = f"file:{quote(str(lake / CATALOG))}?mode=ro"
    try:
        with open_lock(lake):
            opened = sqlite3.connect(address, uri=True, timeout=BUSY_MILLISECONDS / 1000)
        try:
            found = opened.execute(f"pragma integrity_check({_MOST_FAULTS})").fetchall()
        finally:
            with open_lock(lake), closing(opened):
                pass
    except sqlite3.DatabaseError as error:
        if fault := io_fault(error, lake):
            raise fault from None
        if "locked" in str(error):
            raise LakeBusy(
                f"Another program has locked the catalog of the lake in {lake}.",
                remedy="Wait for it, or end it, and run again. Nothing was changed.",
            ) from None
        return [str(error)]
    return [" ".join(str(text).split()) for (text,) in found if text != "ok"]
