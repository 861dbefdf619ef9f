"""Check that a local export folder, and the parts that an export uses, belong to this user."""

from pathlib import Path

from fleetlake.errors import ExportFailed, LakeError
from fleetlake.machine.ownership import require_own


def require_own_parts(root: Path | None, *parts: str) -> None:
    """Refuse a folder, or a part of it, that belongs to another user; None skips the check.

    Another user who can write to the folder could plant a file or a symbolic link there.
    Raises: ExportFailed, which names that user.
    """
    if root is None:
        return
    for path in (root, *(root / part for part in parts)):
        try:
            require_own(path, "export", otherwise="export to a folder of your own")
        except LakeError as error:
            raise ExportFailed(error.what, remedy=error.remedy) from None
