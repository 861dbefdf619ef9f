"""Which findings a place was not told of yet, and a record of what it was told.

A message is recorded before it is sent, and again once it was sent. What a killed run recorded and
perhaps did not send is sent again, with the same number. The rows become files at once: nothing
else says what people were told.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from fleetlake.lake.connection import Lake
from fleetlake.lake.ducklake import FILES_ONLY
from fleetlake.lake.locks import commit_lock
from fleetlake.marts.finding_states import FindingState
from fleetlake.marts.findings import read_findings
from fleetlake.settings.notify_rule import NotifyRule

KEPT_DAYS = 400
"""Days that it stays known what a place was told."""


@dataclass(frozen=True, kw_only=True)
class FindingMessage:
    """A message to a place: its number, and the findings that it is about, most urgent first."""

    number: str
    findings: Sequence[dict[str, Any]]


def unfinished(lake: Lake, place: str) -> FindingMessage | None:
    """Return the message that was recorded and perhaps not sent: its findings that are open."""
    found = lake.rows(
        "select message_id, finding_id from meta.messages "
        "where destination = ? and sent_at is null and is_told",
        [place],
    )
    if not found:
        return None
    ids = {id_ for _, id_ in found}
    still_open = read_findings(lake, state=FindingState.OPEN)
    findings = [one for one in still_open if one["attention_id"] in ids]
    return FindingMessage(number=str(found[0][0]), findings=findings)


def untold(lake: Lake, place: str, rule: NotifyRule, *, now: datetime) -> list[dict[str, Any]]:
    """Return the open findings that a place is to be told of now, most urgent first.

    A finding waits for `wait_minutes`, so that short troubles pass and an outage takes its devices
    along. It is told once; again only if it began anew, and `again_hours` later.
    """
    [(last,)] = lake.rows("select max(sent_at) from meta.messages where destination = ?", [place])
    if rule.digest_hours and last and now - last < timedelta(hours=rule.digest_hours):
        return []
    told = dict(
        lake.rows(
            "select finding_id, max(seen_at) from meta.messages where destination = ? group by all",
            [place],
        )
    )
    found = read_findings(lake, state=FindingState.OPEN)
    by_id = {one["attention_id"]: one for one in found}
    parts = parts_of(found)
    return [
        one
        for one in found
        if one["parent_id"] not in by_id
        and one["severity_rank"] <= rule.severity.rank
        and (not rule.reasons or one["reason"] in rule.reasons)
        and is_of_groups([one, *parts.get(one["attention_id"], ())], rule.groups)
        and _is_due(one, told.get(one["attention_id"]), rule)
        and not _is_known_by_its_parts(parts.get(one["attention_id"], ()), told)
    ]


def record(lake: Lake, place: str, findings: Sequence[dict[str, Any]]) -> FindingMessage:
    """Record a message that is about to be sent, with the devices of the outages in it."""
    message = FindingMessage(number=uuid4().hex[:12], findings=findings)
    parts = parts_of(read_findings(lake, state=FindingState.OPEN))
    within = [part for one in findings for part in parts.get(one["attention_id"], ())]
    with commit_lock(lake.path), lake.transaction():
        lake.execute(FILES_ONLY)
        lake.execute(
            f"delete from meta.messages where recorded_at < now() - interval {KEPT_DAYS} day"
        )
        for one, is_told in [(one, True) for one in findings] + [(one, False) for one in within]:
            lake.execute(
                "insert into meta.messages (destination, message_id, finding_id, router_id, "
                "seen_at, is_told, recorded_at) values (?, ?, ?, ?, ?, ?, now())",
                [
                    *(place, message.number, one["attention_id"], one["router_id"]),
                    *(one["as_of_at"], is_told),
                ],
            )
    return message


def record_sent(lake: Lake, place: str, message: FindingMessage) -> None:
    """Record that a message was sent, and forget what was recorded and is not in it any more."""
    ids = [one["attention_id"] for one in message.findings]
    its = "destination = ? and message_id = ?"
    with commit_lock(lake.path), lake.transaction():
        lake.execute(FILES_ONLY)
        lake.execute(
            f"delete from meta.messages where {its} and (? or is_told) "
            "and finding_id not in (select unnest(?::varchar[]))",
            [place, message.number, not ids, ids],
        )
        lake.execute(
            f"update meta.messages set sent_at = now() where {its}", [place, message.number]
        )


def parts_of(found: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return the findings of each outage."""
    parts: dict[str, list[dict[str, Any]]] = {}
    for one in found:
        if one["parent_id"] is not None:
            parts.setdefault(one["parent_id"], []).append(one)
    return parts


def is_of_groups(findings: Sequence[dict[str, Any]], groups: Sequence[str]) -> bool:
    """Return whether a finding is of one of the groups, by name in any case; no groups mean all."""
    wanted = {group.casefold() for group in groups}
    return not wanted or any((one["group_name"] or "").casefold() in wanted for one in findings)


def _is_known_by_its_parts(parts: Sequence[dict[str, Any]], told: Mapping[str, datetime]) -> bool:
    """Return whether most devices of an outage were told of: it has only another name now."""
    known = [
        part for part in parts if (at := told.get(part["attention_id"])) and at >= part["since_at"]
    ]
    return len(known) * 2 > len(parts)


def _is_due(one: dict[str, Any], told_at: datetime | None, rule: NotifyRule) -> bool:
    since, now = one["since_at"], one["as_of_at"]
    if since is not None and now - since < timedelta(minutes=rule.wait_minutes):
        return False
    if told_at is None:
        return True
    began_anew = since is not None and since > told_at
    return began_anew and now - told_at >= timedelta(hours=rule.again_hours)
