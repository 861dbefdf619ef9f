"""The owner of a file or folder, and what other users of the machine may do with it.

In a folder that others may write to, they can plant a folder or symbolic link under a name that
fleetlake is going to use. Whatever they create belongs to them, so checking the owner finds it.
"""

import os
import pwd
import stat
from errno import EACCES
from pathlib import Path

from fleetlake.errors import LakeError

ROOT = 0
_OTHERS = 0o077


def user_name(uid: int) -> str:
    """Return the name of a user, or the user's number if there is no name."""
    try:
        return repr(pwd.getpwuid(uid).pw_name)
    except KeyError:
        return f"number {uid}"


def is_foreign(uid: int) -> bool:
    """Return whether a user is neither ours nor root; files of such a user may be traps."""
    return uid not in {os.geteuid(), ROOT}


def foreign_owner(path: Path) -> int | None:
    """Return the owner of a path or of its link target, if that is another user; otherwise None.

    A path that does not exist or cannot be examined has no owner.
    """
    for follow in (False, True):
        try:
            owner = path.stat(follow_symlinks=follow).st_uid
        except OSError:  # using the path will raise it again
            continue
        if is_foreign(owner):
            return owner
    return None


def require_own(path: Path, name: str, *, otherwise: str, kind: str = "folder") -> None:
    """Refuse to write to a folder or file of another user. Raises: LakeError naming that user.

    `otherwise` says how to choose another folder.
    """
    owner = foreign_owner(path)
    if owner is not None:
        raise LakeError(
            f"The {name} {kind} {path} belongs to user {user_name(owner)}, and this process runs "
            f"as user {user_name(os.geteuid())}.",
            remedy=f"Run the command as its owner, change the owner with chown -R, or {otherwise}.",
        )


def open_own(path: Path, flags: int, *, mode: int = 0o600) -> int:
    """Open a regular file of this user without following a symbolic link; return a descriptor.

    Raises: OSError; PermissionError for a file of another user.
    """
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    if fault := _fault(os.fstat(descriptor)):
        os.close(descriptor)
        raise PermissionError(EACCES, fault, str(path))
    return descriptor


def _fault(found: os.stat_result) -> str:
    """Return why an open file must not be used, or "" if it may be."""
    if not stat.S_ISREG(found.st_mode):
        return "it is not a regular file"
    return f"it belongs to user {user_name(found.st_uid)}" if is_foreign(found.st_uid) else ""


def excess_rights(path: Path, umask: int) -> int:
    """Return the permission bits of group and others that a umask would have removed.

    A path that does not exist or cannot be examined has none.
    """
    try:
        return stat.S_IMODE(path.stat().st_mode) & umask & _OTHERS
    except OSError:
        return 0


def rights_in_words(bits: int) -> str:
    """Return what permission bits let others do to a file or folder, as participles.

    >>> rights_in_words(0o055), rights_in_words(0o077)
    ('read', 'read and written')
    """
    words = {"read": bits & 0o055, "written": bits & 0o022}
    return " and ".join(word for word, allowed in words.items() if allowed)


def chmod_words(umask: int) -> str:
    """Return the argument of chmod that removes what a umask would have removed.

    >>> chmod_words(0o077), chmod_words(0o027)
    ('go-rwx', 'g-w,o-rwx')
    """
    group, others = _letters(umask >> 3), _letters(umask)
    if group == others:
        return f"go-{group}"
    return ",".join(f"{who}-{what}" for who, what in (("g", group), ("o", others)) if what)


def _letters(bits: int) -> str:
    return "".join(letter for letter, bit in zip("rwx", (4, 2, 1), strict=True) if bits & bit)
