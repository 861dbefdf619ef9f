"""Comparing the alerts in a lake with what a simulated service says it raised and pushed."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from fleetlake.decoding.pushed import WITHOUT_ID
from fleetlake.lake import Lake, open_lake
from fleetlake.lake_address import LakeAddress
from fleetlake.receiving.drain import read_positions
from fleetlake.receiving.journal_reader import START, bytes_after, journals
from tests.processes import Service
from tests.receiving.alert_messages import staged
from tests.simulator.service import last_segment

_SAME = "router_id, account_id, type, friendly_info, detected_at, created_at"
Content = tuple[Any, ...]


@dataclass(frozen=True, kw_only=True)
class Compared:
    """How many alerts were compared; which are missing, appear twice or were never raised."""

    alerts: int
    lost: list[str]
    doubled: list[str]
    invented: list[str]

    def __str__(self) -> str:
        return f"{self.alerts:,} compared, {len(self.lost)} lost, {len(self.doubled)} doubled"

    @property
    def is_equal(self) -> bool:
        """True if each alert is there once, and no other."""
        return not (self.lost or self.doubled or self.invented)


def compared(found: Iterable[str], wanted: set[str], possible: set[str]) -> Compared:
    """Compare ids in a lake with those that must be there, and those that may be."""
    counts = Counter(found)
    return Compared(
        alerts=len(wanted),
        lost=sorted(wanted - set(counts)),
        doubled=sorted(one for one, count in counts.items() if count > 1),
        invented=sorted(set(counts) - possible),
    )


def answered_alerts(fleet: Service) -> tuple[set[str], set[str]]:
    """Return the alerts whose message got a 2xx, and all that were sent, by their UUIDs."""
    messages = fleet.truth("pushes")
    sent = {alert for one in messages if one["attempts"] for alert in one["alerts"]}
    answered = {alert for one in messages if one["answered_2xx"] for alert in one["alerts"]}
    return answered, sent


def pushed_ids(lake: LakeAddress, truth: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the UUID of each pushed row; of one without it, by what the service raised like it."""
    by_content: dict[Content, list[str]] = {}
    for alert in truth:
        by_content.setdefault(_content(alert), []).append(alert["created_at_timeuuid"])
    found = []
    with open_lake(lake, read_only=True) as opened:
        rows = opened.rows(f"select push_id, {_SAME} from raw.pushed_alerts")
    for push_id, *content in rows:
        if not push_id.startswith(WITHOUT_ID):
            found.append(push_id)
            continue
        alike = by_content.get(tuple(content), [])
        found.append(alike.pop() if len(alike) > 1 else (alike or [push_id])[0])
    return found


def _content(alert: Mapping[str, Any]) -> Content:
    ids = (None if alert[n] is None else int(last_segment(alert[n])) for n in ("router", "account"))
    times = (datetime.fromisoformat(alert[name]) for name in ("detected_at", "created_at"))
    return (*ids, alert["type"], alert["friendly_info"], *times)


def polled_ids(lake: LakeAddress, until: datetime) -> list[str]:
    """Return the ids of the alerts in `raw.alerts` that were created before an instant."""
    return _ids(
        lake,
        lambda opened: opened.rows(
            "select created_at_timeuuid from raw.alerts where created_at < ?", [until]
        ),
    )


def shown_ids(lake: LakeAddress, until: datetime) -> list[str]:
    """Return the ids in the one view of polled and pushed alerts that marts read."""
    return _ids(
        lake,
        lambda opened: [(id_,) for id_, at in staged(opened, "alert_id, created_at") if at < until],
    )


def _ids(lake: LakeAddress, read: Any) -> list[str]:
    with open_lake(lake, read_only=True) as opened:
        return [one for (one,) in read(opened)]


def repeated_confirmations(lake: LakeAddress) -> int:
    """Return how many alerts confirm several pushes, or pushes have several alerts."""
    with open_lake(lake, read_only=True) as opened:
        return sum(_repeats(opened, name) for name in ("alert_id", "push_id"))


def _repeats(lake: Lake, name: str) -> int:
    [(count,)] = lake.rows(f"select count(*) - count(distinct {name}) from meta.confirmations")
    return int(count)


def undrained_bytes(lake: LakeAddress, folders: Sequence[Path]) -> int:
    """Return how many bytes of some journal folders the lake does not have yet."""
    with open_lake(lake, read_only=True) as opened:
        positions = read_positions(opened)
    return sum(
        bytes_after(path, positions.get(journal_id, START))
        for folder in set(folders)
        for journal_id, path in journals(folder).items()
    )


def wait_until_drained(lake: LakeAddress, folders: Sequence[Path], *, seconds: float = 180) -> None:
    """Wait until the lake has everything that the journals of some folders hold."""
    until = time.monotonic() + seconds
    while undrained_bytes(lake, folders):
        assert time.monotonic() < until, "the journals are not drained"
        time.sleep(0.2)
