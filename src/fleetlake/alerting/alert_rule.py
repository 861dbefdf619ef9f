"""An alert rule, as the service lists it."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Self

_TYPES = "alert_type__in"


class Schedule(StrEnum):
    """When a rule's notifications are sent: at once, or as a summary of an hour or a day."""

    NONE = "none"
    HOURLY = "hourly"
    DAILY = "daily"


@dataclass(frozen=True, kw_only=True)
class AlertRule:
    """Which alerts are raised in which accounts and groups, and who is notified of them.

    `criteria` is `filter_criteria` as the service holds it; `settings` are those of pooled plans.
    """

    rule_id: str
    account_id: int | None
    types: tuple[str, ...]
    schedule: str
    destination_ids: tuple[str, ...]
    account_ids: tuple[int, ...]
    group_ids: tuple[int, ...]
    user_ids: tuple[int, ...]
    criteria: dict[str, Any]
    settings: dict[str, Any] | None
    updated_at: datetime | None

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Self:
        """Return the rule in a row of a page."""
        criteria = _json(row["filter_criteria"])
        criteria = criteria if isinstance(criteria, dict) else {}
        settings = _json(row["settings"])
        return cls(
            rule_id=row["alert_config_id"],
            account_id=row["account_id"],
            types=tuple(sorted(map(str, criteria.get(_TYPES) or ()))),
            schedule=(row["schedule"] or Schedule.NONE).lower(),
            destination_ids=tuple(map(str, _json(row["http_destinations"]) or ())),
            account_ids=_ids(row["associated_accounts"]),
            group_ids=_ids(row["associated_groups"]),
            user_ids=_ids(row["email_destinations"]),
            criteria=criteria,
            settings=settings if isinstance(settings, dict) else None,
            updated_at=row["updated_at"],
        )

    def with_types(self, name: Callable[[str], str]) -> Self:
        """Return the rule with each alert type under the name that a function gives it."""
        own = {"filter_criteria": self.criteria, "settings": self.settings}
        named = fields_with_types(own, name)
        return replace(
            self,
            types=tuple(sorted(map(name, self.types))),
            criteria=named["filter_criteria"],
            settings=named["settings"],
        )

    def holds(self, fields: Mapping[str, Any]) -> bool:
        """Return whether the rule has the values of a change, in the service's names.

        The order of a list means nothing. The service may add members to the filter.
        """
        criteria = {**self.criteria, _TYPES: self.types}
        named = fields.get("filter_criteria", criteria)
        own = {
            "filter_criteria": {name: criteria.get(name) for name in named},
            "http_destinations": self.destination_ids,
            "email_destinations": self.user_ids,
            "associated_accounts": self.account_ids,
            "associated_groups": self.group_ids,
            "schedule": None if self.schedule == Schedule.NONE else self.schedule,
            "settings": self.settings,
        }
        return all(_unordered(own[name]) == _unordered(fields[name]) for name in fields)


def fields_with_types(fields: Mapping[str, Any], name: Callable[[str], str]) -> dict[str, Any]:
    """Return fields of a rule with each alert type under the name that a function gives it.

    >>> fields_with_types({"filter_criteria": {"alert_type__in": ["reboot"]}}, str.upper)
    {'filter_criteria': {'alert_type__in': ['REBOOT']}}
    """
    found = dict(fields)
    if criteria := found.get("filter_criteria"):
        types = [name(str(one)) for one in criteria.get(_TYPES) or ()]
        found["filter_criteria"] = {**criteria, _TYPES: types}
    if settings := found.get("settings"):
        found["settings"] = {name(one): value for one, value in settings.items()}
    return found


def _unordered(value: Any) -> Any:
    """Return a value for comparison: its lists are sorted."""
    if isinstance(value, Mapping):
        return {name: _unordered(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return sorted(value, key=str)
    return value


def _json(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def _ids(text: str | None) -> tuple[int, ...]:
    """Return a list of ids, which the service may write as numbers, digits or URLs.

    >>> _ids('[7, "8", "https://host/api/v2/accounts/9/"]')
    (7, 8, 9)
    """
    found = (str(one).rstrip("/").rpartition("/")[2] for one in _json(text) or ())
    return tuple(int(number) for number in found if number.isdecimal())
