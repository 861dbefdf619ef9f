"""The SQL of panels that show metrics, compiled when one is asked for.

A panel's file names metrics and dimensions instead of SQL. Its filters are those that the metrics
have a dimension for. A compared panel sets the whole days of the chosen time beside as many days
before them; without a chosen time, the last seven. A lake may know less of one than of the other,
such as the first day from noon on: then figures are by known day, and rows are not compared.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fleetlake.errors import UsageError
from fleetlake.semantic_layer import (
    CallersParameter,
    MetricQuery,
    compile_metrics,
    metric_named,
    metrics,
)
from fleetlake.text.quoting import literal, quoted

FILTERS = {
    "account": "account_id",
    "group": "group_id",
    "router": "router",
    "carrier": "carrier",
}
"""Dimensions by the filter that narrows them."""

SCHEMA = "main"
"""Where an open snapshot has its marts."""

_JOINED = ("device_inventory", "interface_inventory", "data_usage_month")
_OF_DAYS = ("pipeline_freshness", "device_availability_daily")

_ASKED = """
asked as (
    select
        until_date, days,
        until_date - days as since_date,
        until_date - 2 * days as before_date
    from (
        select
            until_at::date as until_date,
            coalesce(round(epoch(until_at - $from::timestamptz) / 86400), 7) as asked_days,
            greatest(1, asked_days)::int as days
        from (
            select coalesce($to::timestamptz, max(newest_event_at)) as until_at
            from pipeline_freshness
        )
    )
),
known as (
    select
        round(coalesce(sum(known_s) filter (available_date >= since_date), 0) / 86400, 2)
            as known_days,
        round(coalesce(sum(known_s) filter (available_date < since_date), 0) / 86400, 2)
            as known_days_before
    from asked
    join (
        select available_date, max(known_s) as known_s
        from device_availability_daily
        group by available_date
    ) on available_date >= before_date and available_date < until_date
)
"""


@dataclass(frozen=True, kw_only=True)
class MetricPanel:
    """What a panel's file says of metrics."""

    metrics: tuple[str, ...]
    by: tuple[str, ...] = ()
    grain: str = ""
    is_compared: bool = False

    @property
    def marts(self) -> tuple[str, ...]:
        """The marts that the SQL may read; none if a file of metrics is wrong, as `sql` says."""
        try:
            known = metrics()
        except UsageError:
            return ()
        read = [mart for name in self.metrics if name in known for mart in known[name].marts]
        return tuple(dict.fromkeys([*read, *_JOINED, *(_OF_DAYS if self.is_compared else ())]))

    def applied(self, given: Mapping[str, object]) -> list[str]:
        """Return the given filters that narrow these metrics. Raises: UsageError."""
        from fleetlake.semantic_layer.compiled import dimensions  # noqa: PLC0415 - it takes 0.7 s

        chosen = [metric_named(name) for name in self.metrics]
        timed = not any(one.is_now or one.is_monthly for one in chosen)
        found = {*dimensions(self.metrics, schema=SCHEMA), "router"}
        return [
            name
            for name in given
            if FILTERS.get(name) in found or (timed and name in ("from", "to"))
        ]

    def sql(self, given: Mapping[str, object]) -> str:
        """Return the SQL, whose parameters have the names of filters. Raises: UsageError."""
        applied = self.applied(given)
        only = {FILTERS[name]: CallersParameter(name) for name in applied if name in FILTERS}
        if self.is_compared:
            return self._side_by_side(only) if self.by else self._figures(only)
        asked = MetricQuery(
            metrics=self.metrics,
            by=self.by,
            grain=self.grain,
            since=CallersParameter("since_day") if "from" in applied else None,
            until=CallersParameter("to") if "to" in applied else None,
            only=only,
        )
        compiled = compile_metrics(asked, schema=SCHEMA).sql
        return compiled.replace("$since_day", "$from::date")

    def _figures(self, only: Mapping[str, object]) -> str:
        """Return a row for each metric: its value in both periods, and how they compare."""
        rows = [
            f"select {number} as place, {literal(name)} as metric, {literal(one.label)} as figure,"
            f" {literal(one.unit)} as unit, {one.is_sum} as is_sum,"
            f" (select {quoted(name)}::double from ({self._of(name, only, 'since', 'until')}))"
            f" as value,"
            f" (select {quoted(name)}::double from ({self._of(name, only, 'before', 'since')}))"
            f" as earlier"
            for number, name in enumerate(self.metrics)
            for one in (metrics()[name],)
        ]
        return (
            f"with {_ASKED}\n"
            "select figure, metric, unit, is_sum, value, earlier, days, known_days,"
            " known_days_before, since_date, until_date - 1 as last_date, before_date\n"
            f"from ({' union all '.join(rows)}), asked, known\norder by place"
        )

    def _side_by_side(self, only: Mapping[str, object]) -> str:
        """Return a row by dimension for one metric, those that changed most first."""
        name, *others = self.metrics
        if others:
            raise UsageError(
                "A comparison by a dimension shows one metric.",
                remedy="Name one in `metrics`, or leave out `by`.",
            )
        now, before = (
            self._of(name, only, *ends) for ends in (("since", "until"), ("before", "since"))
        )
        by = [one for part in self.by for one in self._columns(part)]
        same = " and ".join(f"n.{column} is not distinct from b.{column}" for column in by)
        shown = ", ".join(f"coalesce(n.{column}, b.{column}) as {column}" for column in by)
        missing = "0" if metrics()[name].is_sum else "null"  # no share is not a share of 0
        value, earlier = (f"coalesce({side}.{quoted(name)}, {missing})" for side in "nb")
        return (
            f"with {_ASKED}\n"
            f"select {shown}, n.{quoted(name)}, b.{quoted(name)} as {quoted(f'earlier_{name}')},"
            f" {value} - {earlier} as {quoted(f'more_{name}')}\n"
            f"from ({now}) as n full join ({before}) as b on {same}\n"
            f"where {value} <> {earlier} and (select known_days_before > 0"
            " and known_days_before = known_days from known)\n"
            f"order by abs({value} - {earlier}) desc, {', '.join(by)}"
        )

    def _of(self, name: str, only: Mapping[str, object], since: str, until: str) -> str:
        asked = MetricQuery(
            metrics=(name,),
            by=self.by,
            since=CallersParameter("period_since"),
            until=CallersParameter("period_until"),
            only=only,
        )
        compiled = compile_metrics(asked, schema=SCHEMA).sql
        for end, day in (("since", since), ("until", until)):
            compiled = compiled.replace(f"$period_{end}", f"(select {day}_date from asked)")
        return compiled

    @staticmethod
    def _columns(part: str) -> Sequence[str]:
        return ("router_id", "router_name") if part == "router" else (part,)
