"""Flushing files to disk before the catalog names them, or before older ones are removed.

DuckDB does not flush the files that it writes. They survive a kill of the process but not a power
failure, after which the catalog could name an empty file. So every transaction flushes before it
commits (`Lake.transaction`); a statement that writes outside of one may name a file too early.
SQLite itself flushes the catalog at each commit. Object stores need no flush.
"""

import ctypes
import os
from pathlib import Path

from fleetlake.errors import LakeError
from fleetlake.lake_address import LakeAddress


def flush_files(lake: LakeAddress) -> None:
    """Wait until everything written to the lake's folder is on its disk (about 5 ms).

    Raises: LakeError if the disk reports a failed write.
    """
    folder = lake if isinstance(lake, Path) else Path(lake.files)
    if not folder.is_dir():
        return  # an object store
    sync = getattr(_libc, "syncfs", None)
    if sync is None:
        os.sync()  # systems other than Linux can only flush everything
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        if sync(descriptor):
            reason = os.strerror(ctypes.get_errno())
            raise LakeError(
                f"The lake in {folder} could not be written to its disk: {reason}.",
                remedy="Check the disk, then run again. Nothing of this commit was kept.",
            )
    finally:
        os.close(descriptor)


_libc = ctypes.CDLL(None, use_errno=True)
