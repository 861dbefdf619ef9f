"""Exports into a folder of this machine: it, and what an export uses in it, must be our own."""

from pathlib import Path

from fleetlake.errors import ExportFailed, LakeError
from fleetlake.machine.ownership import require_own


def require_own_parts(root: Path | None, *parts: str) -> None:
    """Refuse a folder of another user, and such parts of it; None is a place without owners.

    Others who may write into a folder can plant a part of it, or a symbolic link in its place.
    Raises: ExportFailed naming that user.
    """
    if root is None:
        return
    for path in (root, *(root / part for part in parts)):
        try:
            require_own(path, "export", otherwise="export to a folder of your own")
        except LakeError as error:
            raise ExportFailed(error.what, remedy=error.remedy) from None
