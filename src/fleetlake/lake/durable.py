"""Having files on the disk before the catalog names them, or before older ones are removed.

DuckDB leaves a written file to the kernel, which survives any kill but no power failure: then
the catalog might name a file that is empty. Object stores take care of this themselves.
"""

import ctypes
import os
from pathlib import Path

from fleetlake.errors import LakeError
from fleetlake.lake_address import LakePlace


def flush_files(place: LakePlace) -> None:
    """Wait until all that was written to the lake's folder is on its disk: about 5 ms.

    Raises: LakeError where the disk says that it could not be written.
    """
    folder = place if isinstance(place, Path) else Path(place.files)
    if not folder.is_dir():
        return  # an object store
    sync = getattr(_libc, "syncfs", None)
    if sync is None:
        os.sync()  # systems other than Linux have no less than all
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        if sync(descriptor):
            reason = os.strerror(ctypes.get_errno())
            raise LakeError(
                f"The lake in {folder} could not be written to its disk: {reason}.",
                remedy="Look after the disk; nothing of this commit is kept, run again then.",
            )
    finally:
        os.close(descriptor)


_libc = ctypes.CDLL(None, use_errno=True)
