"""Comparing the alerts in a lake with what a simulated service says it raised and pushed."""

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx

from fleetlake.decoding.pushed import WITHOUT_ID
from fleetlake.lake import Lake, open_lake
from fleetlake.lake_address import LakeAddress
from fleetlake.receiving.journal_positions import read_positions
from fleetlake.receiving.journal_table import read_waiting
from tests.support.alert_messages import staged
from tests.support.processes import Service
from tests.support.service import keys, last_segment

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


@dataclass(frozen=True, kw_only=True)
class Word:
    """What the service says: every alert that it ever raised, and what became of its pushes.

    `answered` and `sent` are UUIDs of alerts: those whose message got a 2xx, and those that were
    sent at all. `routers` are registered now: unregistering one removes its alerts from the lists.
    """

    alerts: dict[str, dict[str, Any]]
    answered: set[str]
    sent: set[str]
    routers: set[int]

    def pushed(self, lake: LakeAddress) -> Compared:
        """Compare `raw.pushed_alerts` with the messages that got a 2xx."""
        found = _rows(
            lake,
            "select push_id, router_id, account_id, type, friendly_info, detected_at, created_at "
            "from raw.pushed_alerts",
        )
        return compared(self._named(found), self.answered, self.sent)

    def polled(self, lake: LakeAddress, until: datetime) -> Compared:
        """Compare `raw.alerts` with what was created before an instant and is still listed."""
        query = "select created_at_timeuuid from raw.alerts where created_at < ?"
        found = [id_ for (id_,) in _rows(lake, query, [until])]
        return compared(found, self._listed(until), set(self.alerts))

    def shown(self, lake: LakeAddress, until: datetime) -> Compared:
        """Compare the view that marts read with what was listed or pushed before an instant."""
        columns = (
            "alert_id, router_id, account_id, alert_type, description, detected_at, created_at"
        )
        with open_lake(lake, read_only=True) as opened:
            found = [row for row in staged(opened, columns) if row[-1] < until]
        pushed = {one for one in self.answered if _created(self.alerts[one]) < until}
        return compared(self._named(found), self._listed(until) | pushed, set(self.alerts))

    def _listed(self, until: datetime) -> set[str]:
        return {
            id_
            for id_, alert in self.alerts.items()
            if _created(alert) < until
            and (alert["router"] is None or _number(alert["router"]) in self.routers)
        }

    def _named(self, rows: Iterable[tuple[Any, ...]]) -> list[str]:
        """Return the UUID of each row; of one without it, that of a sent alert like it."""
        alike: dict[Content, list[str]] = {}
        for id_ in sorted(self.sent):
            alike.setdefault(_content(self.alerts[id_]), []).append(id_)
        found = []
        for id_, *content in rows:
            if id_.startswith(WITHOUT_ID) and (candidates := alike.get(tuple(content))):
                found.append(candidates.pop() if len(candidates) > 1 else candidates[0])
            else:
                found.append(id_)
        return found


def word_of(fleet: Service) -> Word:
    """Return what the service says now."""
    messages = fleet.truth("pushes")
    return Word(
        alerts={one["created_at_timeuuid"]: one for one in fleet.truth("alerts")},
        answered={id_ for one in messages if one["answered_2xx"] for id_ in one["alerts"]},
        sent={id_ for one in messages if one["attempts"] for id_ in one["alerts"]},
        routers={int(one["id"]) for one in _listed_routers(fleet)},
    )


def _listed_routers(fleet: Service) -> Iterator[dict[str, Any]]:
    url: str | None = f"{fleet.url}/api/v2/routers/?limit=500"
    while url:
        answer = httpx.get(url, headers=keys(), timeout=60).raise_for_status()
        page = json.loads(answer.text, strict=False)  # names have control characters
        yield from page["data"]
        url = page["meta"]["next"]


def _content(alert: Mapping[str, Any]) -> Content:
    """Return what a row without a UUID has in common with its alert."""
    ids = (alert[name] and _number(alert[name]) for name in ("router", "account"))
    detected = datetime.fromisoformat(alert["detected_at"])
    return (*ids, alert["type"], alert["friendly_info"], detected, _created(alert))


def _created(alert: Mapping[str, Any]) -> datetime:
    return datetime.fromisoformat(alert["created_at"])


def _number(url: str) -> int:
    return int(last_segment(url))


def _rows(lake: LakeAddress, sql: str, parameters: object = None) -> list[tuple[Any, ...]]:
    with open_lake(lake, read_only=True) as opened:
        return opened.rows(sql, parameters)


def repeated_confirmations(lake: LakeAddress) -> int:
    """Return how many alerts confirm several pushes, or pushes have several alerts."""
    with open_lake(lake, read_only=True) as opened:
        return sum(_repeats(opened, name) for name in ("alert_id", "push_id"))


def _repeats(lake: Lake, name: str) -> int:
    [(count,)] = lake.rows(f"select count({name}) - count(distinct {name}) from meta.confirmations")
    return int(count)


def undrained(lake: LakeAddress, folders: Sequence[Path]) -> int:
    """Return how many messages of some journals the lake does not have yet."""
    with open_lake(lake, read_only=True) as opened:
        positions = read_positions(opened)
    return sum(read_waiting(folder, positions).messages for folder in set(folders))


def wait_until_drained(lake: LakeAddress, folders: Sequence[Path], *, seconds: float = 180) -> None:
    """Wait until the lake has everything that the journals of some folders hold."""
    until = time.monotonic() + seconds
    while undrained(lake, folders):
        assert time.monotonic() < until, "the journals are not drained"
        time.sleep(0.2)
