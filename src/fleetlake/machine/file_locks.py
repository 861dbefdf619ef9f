"""Operating-system locks on files; the system releases those of a killed process.

Any user who can open a lock file, even for reading, can hold it indefinitely. So lock files have
mode 0600 whatever the umask is. A lock held by another user is an error: waiting for it, or taking
it for one of our own loads, would be wrong.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from fleetlake.errors import LakeError
from fleetlake.machine.ownership import foreign_owner, is_foreign, user_name

MODE = 0o600
POLL_SECONDS = 0.05
FOR_EVER = -1.0
_KERNELS_LIST = Path("/proc/locks")


class LockTaken(Exception):
    """Another process still holds the lock after the time allowed for waiting."""


@contextmanager
def file_lock(path: Path, *, seconds: float, poll_seconds: float = POLL_SECONDS) -> Iterator[None]:
    """Hold a lock file, waiting up to `seconds` for it, or `FOR_EVER`.

    Raises: LockTaken if another process of this user or root holds the lock. LakeError if another
    user holds it or owns the file or its folder, or if the file cannot be opened.
    """
    for checked in (path.parent, path):
        if (owner := foreign_owner(checked)) is not None:
            raise _owned_by_other(path, f"belongs to user {user_name(owner)}")
    lock = FileLock(path, timeout=seconds, mode=MODE, thread_local=False)
    try:
        with suppress(Timeout):
            lock.acquire(timeout=0)
        if not lock.is_locked:
            _refuse_foreign_holder(path)
            lock.acquire(poll_interval=poll_seconds)
    except Timeout:
        _refuse_foreign_holder(path)
        raise LockTaken from None
    except OSError as error:
        raise _unusable_lock(path, error) from None
    try:
        yield
    finally:
        lock.release()


def _refuse_foreign_holder(path: Path) -> None:
    """Raise LakeError if a process of another user holds a lock file."""
    holder = _holder(path)
    if holder is not None and is_foreign(holder):
        raise _owned_by_other(path, f"is held by a process of user {user_name(holder)}")


def _holder(path: Path) -> int | None:
    """Return the user whose process holds a lock file, if the kernel lists it."""
    with suppress(OSError, ValueError):
        found = path.stat()
        device = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}"
        for line in _KERNELS_LIST.read_text("ascii", "replace").splitlines():
            fields = line.split()
            # E.g. 3: FLOCK ADVISORY WRITE 4711 08:01:131 0 EOF. A waiting process has an arrow.
            if "->" not in fields and f"{device}:{found.st_ino}" in fields:
                pid = fields[fields.index(f"{device}:{found.st_ino}") - 1]
                return Path(f"/proc/{int(pid)}").stat().st_uid
    return None


def _unusable_lock(path: Path, error: OSError) -> LakeError:
    """Return the error for a lock file, or its folder, that this process cannot use."""
    if path.is_symlink():
        return LakeError(
            f"The lock file {path} is a symbolic link. fleetlake never creates one.",
            remedy="Find out who created it, and remove it.",
        )
    with suppress(OSError):
        owner = path.stat().st_uid
        if owner != os.geteuid():
            return _owned_by_other(path, f"belongs to user {user_name(owner)}")
    return LakeError(
        f"The lock file {path} cannot be used: {error.strerror or error}.",
        remedy=f"Make the folder {path.parent} writable for this user.",
    )


def _owned_by_other(path: Path, how: str) -> LakeError:
    return LakeError(
        f"The lock file {path} {how}, and this process runs as user {user_name(os.geteuid())}.",
        remedy="Run the command as that user, or find out why that user holds the lock. Then "
        "remove the lock file.",
    )
