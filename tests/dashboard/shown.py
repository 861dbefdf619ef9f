"""What the pages must show, by SQL of its own on the marts' files, as the pages write it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.dashboard.browser_shown import ROUTER

Sql = Callable[[str], list[tuple[Any, ...]]]


@dataclass(frozen=True, kw_only=True)
class Shown:
    """The rows of a panel: some of its columns, by place, as one SQL statement gives them.

    The panel shows `most` of them at first.
    """

    path: str
    panel: str
    columns: tuple[int, ...]
    sql: str
    most: int = 15


TABLES = (
    Shown(
        path="/failover?last=all",
        panel="causes",
        columns=(0, 1, 2),
        sql="select coalesce(cause_reason, 'no alert says why'), cause_type, count(*)"
        " from failover_episodes group by cause_reason, cause_type",
    ),
    Shown(
        path="/failover?last=all",
        panel="routers",
        columns=(0, 2, 3),
        sql="select strftime(started_at, '%Y-%m'), printf('%.2f', sum(cost)), count(*)"
        " from failover_episodes group by strftime(started_at, '%Y-%m'), router_id",
    ),
    Shown(
        path="/batteries?last=all",
        panel="alert_check",
        columns=(0, 1, 2),
        sql="select alert_type, verdict, count(*) from battery_alert_check group by all",
    ),
    Shown(
        path=f"/device?last=all&router={ROUTER}",
        panel="alerting",
        columns=(0, 1, 2),
        sql="select alert_type, sum(alerts), sum(repeats) from alert_volume"
        f" where router_id = {ROUTER} group by alert_type",
    ),
    Shown(
        path="/usage?last=all",
        panel="months",
        columns=(0, 1, 4, 5),
        sql="select strftime(month_date, '%Y-%m'), coalesce(carrier, 'wired'), count(*),"
        " sum(is_over_cap_projected::int) from data_usage_month group by month_date, carrier",
    ),
    Shown(
        path="/alerts?last=all",
        panel="types",
        columns=(0, 1, 2, 3),
        sql="select alert_type, sum(alerts), sum(repeats), count(distinct router_id)"
        " from alert_volume group by alert_type",
    ),
    Shown(
        path="/changes?last=all",
        panel="severity",
        columns=(0, 1, 2, 3),
        sql="select severity, event_type, count(*), count(distinct router_id)"
        " from security_events group by severity, event_type",
    ),
    Shown(
        path="/data",
        panel="callers",
        columns=(0, 1, 2),
        sql="select * from (values ('first', 24, 3), ('second', 24, 3))",
    ),
)
COUNTED: Mapping[tuple[str, str], str] = {
    ("/failover?last=all", "episodes"): "failover_episodes",
    ("/batteries?last=all", "alert_list"): "battery_alert_check",
    ("/usage?last=all", "lines"): "data_usage_month",
    ("/alerts?last=all", "single"): "alert_log where not is_repeat",
    ("/changes?last=all", "changes"): "change_log",
    ("/changes?last=all", "events"): "security_events",
}
"""Tables that say how many rows there are, with the mart that has them."""

CARDS: Mapping[str, Mapping[str, str]] = {
    "/now": {
        "Devices": "count(*) from device_inventory",
        "Devices online": "count(*) from device_inventory where connection_state = 'online'",
        "Devices offline": "count(*) from device_inventory where connection_state = 'offline'",
        "Devices on a backup": "count(*) from failover_now where unknown_since_at is null",
        "Batteries at risk": "count(*) from battery_risk where risk = 'high'",
        "Devices located today": "count(*) from location_latest where age_s < 86400",
        "Devices behind on firmware": "count(*) from device_inventory where is_behind_on_firmware",
    },
    "/data": {
        "Streams": "count(*) from pipeline_freshness",
        "Streams with holes": "count(*) from pipeline_freshness where holes > 0",
        "Streams with open gaps": "count(*) from pipeline_freshness where open_gaps > 0",
        "Streams with quarantine": "count(*) from pipeline_freshness where quarantined > 0",
        "Calls on newest day": "18",
        "Calls allowed per day": "40",
    },
}
LOCATED = "select count(*) from location_latest where latitude_deg is not null"


def as_shown(value: object) -> str:
    """Return a value as a page writes it."""
    if value is None:
        return "\N{EN DASH}"
    return f"{int(value):,}" if isinstance(value, int | float) else str(value)


def expected(sql: Sql) -> dict[str, Any]:
    """Return all that the pages must show of the newest snapshot."""
    return {
        "tables": {
            (one.path, one.panel): sorted(tuple(map(as_shown, row)) for row in sql(one.sql))
            for one in TABLES
        },
        "counted": {
            place: sql(f"select count(*) from {mart}")[0][0] for place, mart in COUNTED.items()
        },
        "cards": {
            path: {name: as_shown(sql(f"select {what}")[0][0]) for name, what in cards.items()}
            for path, cards in CARDS.items()
        },
        "located": sql(LOCATED)[0][0],
    }
