"""Alerts in the order in which they arrive in the lake, each once.

`_alerts` is the one place that says where alerts are read: a lake whose staging views were built
has polled and pushed alerts in one view, in which a pushed alert gives way to the polled one that
confirms it; before the first build it reads the raw tables in the same way. Both have the same id
if the push carried it. If not, the lake says which push the polled row confirms, and it is not
shown again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from fleetlake.endpoints import ALERTS, GROUPS, PUSHED
from fleetlake.endpoints.relations import Thing
from fleetlake.lake.connection import Lake, has_meta
from fleetlake.settings import load_settings

OVERLAP = timedelta(minutes=10)
"""Rows loaded this long before the newest are looked at again: long transactions commit late."""

_EVER = datetime.min.replace(tzinfo=UTC)

_VIEW = f"stg_{ALERTS.name}"
_KEY = ALERTS.key[-1]


@dataclass(frozen=True, kw_only=True)
class AlertFilter:
    """Which alerts to show: of these types, of a device or a group by id or name."""

    types: Sequence[str] = ()
    device: str | None = None
    group: str | None = None


@dataclass(frozen=True, kw_only=True)
class ArrivedAlert:
    """One alert, with the names that its device and group have now. Times are UTC."""

    alert_id: str
    account_profile: str
    alert_type: str
    detected_at: datetime | None
    router_id: int | None
    router_name: str | None
    group_id: int | None
    group_name: str | None
    account_id: int | None
    description: str | None
    loaded_at: datetime


FIELDS = tuple(ArrivedAlert.__dataclass_fields__)


class AlertTail:
    """The alerts that arrived since the last look; the first look shows those since a time.

    Without a time, the first look shows nothing: what is there has arrived before.
    """

    def __init__(
        self, lake: Lake, chosen: AlertFilter | None = None, *, since: datetime | None = None
    ) -> None:
        self._lake = lake
        self._chosen = chosen or AlertFilter()
        self._words = load_settings().words
        self._shown: set[str] = set()
        self._newest: datetime | None = None
        self._earlier = self._first(since)

    def _first(self, since: datetime | None) -> list[ArrivedAlert]:
        """Note the alerts that are there, and return those to show."""
        with self._lake.single_snapshot():
            [(self._newest,)] = self._lake.rows(
                f"select max(loaded_at) from ({_alerts(self._lake)})"
            )
            if self._newest is None:
                return []
            recent = list(self._read("loaded_at >= ?", self._newest - OVERLAP))
            shown = [] if since is None else list(self._read("detected_at >= ?", since))
        for alert in (*recent, *shown):
            self._note(alert)
        return shown

    def look(self) -> list[ArrivedAlert]:
        """Return the alerts that arrived since the last look, oldest first."""
        shown, self._earlier = self._earlier, []
        with self._lake.single_snapshot():
            after = self._newest - OVERLAP if self._newest else _EVER
            new = [a for a in self._read("loaded_at >= ?", after) if a.alert_id not in self._shown]
            confirmed = self._shown_pushes() if new else {}
            for alert in new:
                if alert.alert_id in confirmed:
                    self._shown.discard(confirmed[alert.alert_id])
                else:
                    shown.append(alert)
                self._note(alert)
        return shown

    def _shown_pushes(self) -> dict[str, str]:
        """Return the pushes that were shown, each by the id of the alert that confirms it."""
        if not has_meta(self._lake, "confirmations"):
            return {}
        return dict(
            self._lake.rows(
                "select alert_id, push_id from meta.confirmations "
                "where push_id in (select unnest(?::varchar[])) and alert_id is not null",
                [[*self._shown]],
            )
        )

    def _note(self, alert: ArrivedAlert) -> None:
        self._shown.add(alert.alert_id)
        if self._newest is None or alert.loaded_at > self._newest:
            self._newest = alert.loaded_at

    def _read(self, condition: str, *values: object) -> Iterator[ArrivedAlert]:
        """Yield the chosen alerts that meet a condition, oldest first."""
        conditions, parameters = [f"a.{condition}"], [*values]
        if self._chosen.types:
            types = self._words.either(self._chosen.types)
            conditions.append(f"a.alert_type in ({', '.join('?' * len(types))})")
            parameters += types
        for name, wanted in (("router", self._chosen.device), ("group", self._chosen.group)):
            if wanted is not None:
                conditions.append(f"? in (cast({name}_id as varchar), {name}_name)")
                parameters.append(wanted)
        for row in self._lake.rows(
            f"select {', '.join(FIELDS)} from ({_named(self._lake)}) as a "
            f"where {' and '.join(conditions)} order by detected_at, alert_id",
            parameters,
        ):
            found = dict(zip(FIELDS, row, strict=True))
            type_ = self._words.neutral(found["alert_type"] or "")
            yield ArrivedAlert(**found | {"alert_type": type_ or None})


def _named(lake: Lake) -> str:
    """Return a query of all alerts with the names of their devices and groups."""
    return (
        f"select alerts.*, routers.name as router_name, routers.group_id, "
        f"groups.name as group_name from ({_alerts(lake)}) as alerts "
        f"left join raw.{Thing.ROUTER.listing.name} as routers "
        "on routers.id = alerts.router_id and routers.valid_to is null "
        "and routers.account_profile = alerts.account_profile "
        f"left join raw.{GROUPS.name} as groups on groups.id = routers.group_id "
        "and groups.valid_to is null and groups.account_profile = alerts.account_profile"
    )


def _alerts(lake: Lake) -> str:
    """Return a query of all alerts in the lake, polled and pushed."""
    columns = "account_profile, alert_id, account_id, router_id, alert_type, description"
    is_built = lake.rows(
        "select 1 from duckdb_views() where database_name = 'lake' "
        "and schema_name = 'staging' and view_name = ?",
        [_VIEW],
    )
    if is_built:
        return f"select {columns}, detected_at, loaded_at from staging.{_VIEW}"
    polled = (
        f"select account_profile, {_KEY} as alert_id, account_id, router_id, type as alert_type, "
        "friendly_info as description, coalesce(detected_at, created_at) as detected_at, "
        f"_loaded_at as loaded_at from raw.{ALERTS.name}"
    )
    if not has_meta(lake, "confirmations"):  # only earlier releases have written the lake
        return polled
    pushed = (
        f"select account_profile, coalesce({_KEY}, push_id), account_id, router_id, type, "
        "friendly_info, coalesce(detected_at, alerted_at), _loaded_at "
        f"from raw.{PUSHED.name} anti join meta.confirmations using (push_id)"
    )
    return f"{polled} union all {pushed}"
