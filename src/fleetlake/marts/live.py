"""Keep the live marts up to date while events arrive, polled or pushed.

A scheduled build would first start Python and dbt, and parse the project: that takes longer than
the build. So one process looks at the lake again and again, and keeps its dbt process from one
build to the next. It sees what any process commits, on any machine.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fleetlake.lake import Lake, open_lake
from fleetlake.lake.ducklake import newest_snapshot
from fleetlake.lake.table_changes import changed_tables
from fleetlake.lake_address import LakeAddress
from fleetlake.machine.file_locks import file_lock
from fleetlake.marts.build import build_marts
from fleetlake.marts.catalogue import live_tables
from fleetlake.marts.dbt import BuildResult
from fleetlake.marts.dbt_process import DbtProcess
from fleetlake.marts.plan import work_folder
from fleetlake.settings import BUILD_MEMORY


@contextmanager
def live_lock(lake: LakeAddress, *, seconds: float) -> Iterator[None]:
    """Be the one process of this machine that keeps a lake's live marts up to date.

    Raises: LockTaken if another one still does so after some seconds.
    """
    with file_lock(work_folder(lake.resolve()) / "live.lock", seconds=seconds):
        yield


@contextmanager
def live_builds(
    lake: LakeAddress, *, memory: str = BUILD_MEMORY
) -> Iterator[Callable[[], BuildResult | None]]:
    """Yield a function that builds the live marts if events may have arrived since its last call.

    It returns the result, None if there was nothing to build, and raises as `build_marts` does.
    Creates an empty lake if there is none.
    """
    seen: int | None = None
    with open_lake(lake):
        pass
    with DbtProcess() as dbt, open_lake(lake, read_only=True, threads=1) as opened:

        def look() -> BuildResult | None:
            nonlocal seen
            newest = newest_snapshot(opened)
            if not _is_due(opened, seen, newest):
                seen = newest
                return None
            result = build_marts(lake, is_live=True, memory=memory, dbt=dbt)
            seen = newest
            return result

        yield look


def _is_due(lake: Lake, seen: int | None, newest: int) -> bool:
    """Return whether live tables may have changed since a snapshot; the build knows for sure."""
    if seen is None:
        return True
    changed = changed_tables(lake, seen, newest)
    return changed is None or bool(changed & live_tables())
