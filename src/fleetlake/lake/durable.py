"""Flushing files to disk before the catalog names them, or before older ones are removed.

DuckDB leaves a written file to the kernel. That survives a kill but not a power failure: the
catalog could then name an empty file. Object stores take care of this themselves.
"""

import ctypes
import os
from pathlib import Path

from fleetlake.errors import LakeError
from fleetlake.lake_address import LakeAddress


def flush_files(place: LakeAddress) -> None:
    """Wait until everything written to the lake's folder is on its disk: about 5 ms.

    Raises: LakeError if the disk reports a failed write.
    """
    folder = place if isinstance(place, Path) else Path(place.files)
    if not folder.is_dir():
        return  # an object store
    sync = getattr(_libc, "syncfs", None)
    if sync is None:
        os.sync()  # other systems than Linux can only flush everything
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
