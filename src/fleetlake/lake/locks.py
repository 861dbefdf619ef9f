"""Locks of a lake: one load of a stream at a time, one commit of the catalog at a time.

A stream that shards may divide has a lock for each part, so that a shard excludes whoever loads
the same ids, and nobody else. They are locks of the operating system on files: a killed process
holds none.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from fleetlake.endpoints import ENDPOINTS
from fleetlake.errors import LakeError, StreamBusy
from fleetlake.shard import WHOLE, Shard

COMMIT_PATIENCE_SECONDS = 120.0


@contextmanager
def stream_lock(lake: Path, stream: str, shard: Shard = WHOLE) -> Iterator[None]:
    """Hold a stream, or a shard's parts of it, where it can be divided.

    Raises: StreamBusy at once when another process is loading any of that.
    """
    names = [stream]
    if ENDPOINTS[stream].is_divisible:
        names = [f"{stream}.{part}" for part in shard.parts]
    with ExitStack() as held:
        try:
            for name in names:
                held.enter_context(FileLock(_folder(lake) / f"{name}.lock", timeout=0))
        except Timeout:
            raise StreamBusy(
                f"{stream} is being loaded by another process, so it was left to that one."
            ) from None
        yield


@contextmanager
def commit_lock(lake: Path) -> Iterator[None]:
    """Hold the catalog for one commit. Raises: LakeError after two minutes of waiting."""
    lock = FileLock(
        _folder(lake) / "commit.lock", timeout=COMMIT_PATIENCE_SECONDS, thread_local=False
    )
    try:
        lock.acquire()
    except Timeout:
        raise LakeError(
            f"Another process has held the catalog of {lake} for two minutes.",
            remedy="Look for a stopped (suspended) fleetlake process and end it.",
        ) from None
    try:
        yield
    finally:
        lock.release()


def _folder(lake: Path) -> Path:
    folder = lake / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
