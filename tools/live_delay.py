"""How long alerts waited for their mart, by the snapshots of a lake that live builds follow.

    python -m tools.live_delay data/up/lake

Reads what the lake has kept: for each commit of alerts the first later snapshot whose
`alert_volume` counts them all. Then computes every mart again in a copy and compares.
"""

# ruff: noqa: T201 - it is run for what it prints

import shutil
import sys
import tempfile
from datetime import datetime
from pathlib import Path
from statistics import median

from fleetlake.errors import LakeError
from fleetlake.lake import Lake, open_lake
from fleetlake.marts import build_marts
from fleetlake.marts.catalogue import marts

States = list[tuple[datetime, int, int]]


def states(lake: Lake) -> States:
    """Return time, alerts in the lake and alerts in the mart, for each snapshot with the mart."""
    found = lake.rows("select snapshot_id, snapshot_time from lake.snapshots() order by all")
    counted: States = []
    for snapshot, made_at in found:
        at = f"at (version => {snapshot})"
        try:
            [(loaded,)] = lake.rows(
                f"select (select count(*) from raw.alerts {at}) + (select count(*) from "
                f"raw.pushed_alerts {at}) - (select count(*) from meta.confirmations {at})"
            )
            [(shown,)] = lake.rows(
                f"select coalesce(sum(alerts), 0)::bigint from marts.alert_volume {at}"
            )
        except LakeError:  # before the first build there is no mart
            continue
        counted.append((made_at, loaded, shown))
    return counted


def delays(counted: States) -> list[float]:
    """Return the seconds from each commit of alerts to the first mart that counts them."""
    waited, before = [], None
    for place, (made_at, loaded, _) in enumerate(counted):
        if before is not None and loaded > before:
            later = (at for at, _, shown in counted[place:] if shown >= loaded)
            if (shown_at := next(later, None)) is not None:
                waited.append((shown_at - made_at).total_seconds())
        before = loaded
    return waited


def content(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Return rows and a checksum of every mart, without `built_at`."""
    with open_lake(path, read_only=True) as lake:
        return {
            mart["name"]: lake.rows(
                "select count(*), sum(hash(t)::hugeint) from (select columns(c -> c <> 'built_at')"
                f" from marts.{mart['name']}) as t"
            )
            for mart in marts()
        }


def main() -> int:
    """Print the delays; return 1 if the marts differ from those of a full build."""
    path = Path(sys.argv[1])
    with open_lake(path, read_only=True) as lake:
        counted = states(lake)
    waited = sorted(delays(counted))
    if waited:
        print(
            f"{len(waited)} commits of alerts: in the mart after {median(waited):.1f} s (median), "
            f"{waited[int(len(waited) * 0.9)]:.1f} s (90%), {waited[-1]:.1f} s (longest)"
        )
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(shutil.copytree(path, Path(folder) / "lake"))
        build_marts(copy)
        kept = content(copy)
        build_marts(copy, is_full=True)
        other = [name for name, found in content(copy).items() if found != kept[name]]
    print(f"{len(kept)} marts, different from a full build: {', '.join(other) or 'none'}")
    return int(bool(other))


if __name__ == "__main__":
    sys.exit(main())
