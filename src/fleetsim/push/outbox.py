"""Matching new alerts with the alert rules: which alerts go to which destinations."""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np

from fleetsim.blocks import Block
from fleetsim.definition import SeriesRead
from fleetsim.ledger import Fields
from fleetsim.live_shapes import info_of_type_only
from fleetsim.push.push_faults import BodyShape
from fleetsim.rendering import records
from fleetsim.resources.alerts import ALERTS
from fleetsim.resources.daily import in_scope
from fleetsim.rules import DESTINATIONS, RULES, covered, key_text
from fleetsim.units import DAY, HOUR
from fleetsim.view import View

_PERIODS: Final = {"hourly": HOUR, "daily": DAY}


@dataclass(frozen=True)
class Message:
    """One alert, as lists serve it, for one rule's destinations, due at an instant."""

    due: int
    rule: int
    destinations: tuple[int, ...]
    alert: Fields
    is_summary: bool


def has_listeners(view: View) -> bool:
    """Return whether any destination is enabled."""
    return any(record["enabled"] for record in view.ledger.writes_to(DESTINATIONS).created.values())


def messages(view: View, since: int, until: int, announced: AbstractSet[int]) -> Iterator[Message]:
    """Yield the messages for alerts created in [since, until), oldest first.

    `announced` holds the uuid tails of alerts that were sent when they were raised.
    """
    assert ALERTS.series is not None
    for block in ALERTS.series(view, SeriesRead(since=since, until=until)):
        first, last = np.searchsorted(block["time"], [since, until])
        part = block.take(slice(int(first), int(last)))
        part = part.take(np.flatnonzero(in_scope(view, part)))
        if announced:
            new = [tail not in announced for tail in part["tail"].tolist()]
            part = part.take(np.flatnonzero(new))
        if len(part):
            yield from of_block(view, part)


def of_block(view: View, block: Block) -> Iterator[Message]:
    """Yield the messages of a block of alerts, rule by rule."""
    numbers = {
        key_text(record): number
        for number, record in view.ledger.writes_to(DESTINATIONS).created.items()
    }
    for rule_number, rule in view.ledger.writes_to(RULES).created.items():
        sent_to = tuple(numbers[key] for key in rule["http_destinations"] if key in numbers)
        chosen = np.flatnonzero(covered(view, rule, block)) if sent_to else np.zeros(0, dtype=int)
        if len(chosen) == 0:
            continue
        part = block.take(chosen)
        alerts = records(view, ALERTS.shown, part)
        period = _PERIODS.get((rule["schedule"] or "none").lower())
        for at, alert in zip(part["time"].tolist(), alerts, strict=True):
            due = at if period is None else (at // period + 1) * period
            yield Message(due, rule_number, sent_to, alert, period is not None)


def pushed_alert(alert: Fields, shape: BodyShape) -> Fields:
    """Return an alert, given as lists serve it, in the shape of a push body."""
    if shape is BodyShape.LIVE:
        return _live(alert)
    found = dict(alert)
    for name in ("router", "account"):
        url = found[name]
        number = None if url is None else int(url.rstrip("/").rpartition("/")[2])
        is_object = shape is BodyShape.OBJECTS and number is not None
        found[name] = {"id": number, "resource_url": url} if is_object else number
    if shape is not BodyShape.IDS:
        del found["created_at_timeuuid"]
    return _relayed(found) if shape is BodyShape.RELAY else found


def _live(alert: Fields) -> Fields:
    """Return an alert as the live service sends it (observed); {} is where nothing is named."""
    about = {
        name: {} if url is None else {"id": url.rstrip("/").rpartition("/")[2], "resource_url": url}
        for name in ("router", "account")
        for url in (alert[name],)
    }
    info = info_of_type_only("alerts", alert)["info"] or {}
    return {"type": alert["type"], "info": info, **about}


def _relayed(alert: Fields) -> Fields:
    """Return an alert as relays send it (observed); a device or account without a value is {}."""
    device, account = alert.pop("router"), alert.pop("account")
    found = alert | {
        "alert_type": alert.pop("type"),
        "account": {} if account is None else {"id": str(account)},
    }
    for name in ("created_at", "detected_at"):
        found[name] = datetime.fromisoformat(alert[name]).timestamp()
    if device is None:
        return found | {"router": {}}
    return found | {"device_id": device, "router_details": {"id": str(device)}}
