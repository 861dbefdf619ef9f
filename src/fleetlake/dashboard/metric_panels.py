"""The SQL of panels that show metrics.

That of shipped panels is in `metric_panels.json`, as `make reference` writes it, because MetricFlow
takes a second to import. Other SQL is written when it is asked for.

A panel's file names metrics and dimensions. Its own SQL, if any, selects from `{metrics}`. Its
filters are those that the metrics have a dimension for; by month, whole months that the chosen time
touches are shown. A compared panel sets the whole days of the chosen time beside as many days
before them; without a chosen time, the last seven. A lake may know less of one than of the other,
such as the first day from noon on: then figures are by known day, and rows are not compared.
"""

import json
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from threading import Lock

from fleetlake.errors import UsageError
from fleetlake.semantic_layer import (
    CallersParameter,
    MetricDefinition,
    MetricQuery,
    OptionalParameter,
    compile_metrics,
    metric_named,
    metrics,
)
from fleetlake.semantic_layer.definitions import Files, state
from fleetlake.text.quoting import literal, quoted
from fleetlake.text.tables_beside import statements_beside

FILTERS = {
    "account": "account_id",
    "group": "group_id",
    "router": "router",
    "carrier": "carrier",
    "type": "alert_type",
}
"""Dimensions by the filter that narrows them."""

SCHEMA = "main"
"""Where an open snapshot has its marts."""

_OF_TIMES = ("pipeline_freshness", "device_availability_daily", "snapshot_completeness")
_TIMES = ("from", "to")
_MONTHS = {
    "from": "date_trunc('month', $from::timestamptz)",
    "to": "(date_trunc('month', $to::timestamptz - interval 1 microsecond) + interval 1 month)",
}
WRITTEN = Path(__file__).with_name("metric_panels.json")
_LOCK = Lock()
"""MetricFlow is imported once, and each SQL is written once."""

_PERIODS = statements_beside(__file__, "compared_periods.sql")


@dataclass(frozen=True, kw_only=True)
class MetricPanel:
    """What a panel's file says of metrics.

    A panel that is not the project's own shows our metrics, also while a file of its is wrong.
    """

    metrics: tuple[str, ...]
    by: tuple[str, ...] = ()
    grain: str = ""
    is_compared: bool = False
    is_own: bool = False

    @property
    def files(self) -> Files:
        """The files of the metrics."""
        return state(is_ours=not self.is_own)

    @property
    def marts(self) -> tuple[str, ...]:
        """The marts that the SQL may read; none if a file of metrics is wrong, as `sql` says."""
        try:
            known = metrics(self.files)
        except UsageError:
            return ()
        asked = [known[name] for name in self.metrics if name in known]
        joined = [mart for one in asked for mart in one.joined]
        read = [mart for one in asked for mart in one.marts]
        return tuple(dict.fromkeys([*read, *joined, *(_OF_TIMES if self.is_compared else ())]))

    @property
    def narrowing(self) -> frozenset[str]:
        """The filters that narrow these metrics. Raises: UsageError."""
        with _LOCK:
            return _narrowing(self, self.files)

    def sql(self, beside: tuple[str, ...] = ()) -> str:
        """Return the SQL, with a parameter of the name of each filter that is not beside it.

        Raises: UsageError.
        """
        narrowing = self.narrowing.difference(beside)
        with _LOCK:
            return _sql(self, narrowing, self.files)

    def written(self, narrowing: Container[str]) -> str:
        """Return the SQL with these filters."""
        only = {of: OptionalParameter(name) for name, of in FILTERS.items() if name in narrowing}
        if self.is_compared:
            return self._side_by_side(only) if self.by else self._figures(only)
        since, until = (OptionalParameter(one) if one in narrowing else None for one in _TIMES)
        asked = MetricQuery(
            metrics=self.metrics, by=self.by, grain=self.grain, since=since, until=until, only=only
        )
        compiled = compile_metrics(asked, schema=SCHEMA, files=self.files).sql
        for name, month in _MONTHS.items() if self.grain == "month" else ():
            compiled = compiled.replace(f"${name}", month)
        return compiled

    def _figures(self, only: Mapping[str, object]) -> str:
        """Return a row for each metric: its value in both periods, and how they compare."""
        rows = [
            f"select {number} as place, {literal(name)} as metric, {literal(one.label)} as figure,"
            f" {literal(one.unit)} as unit, {one.is_sum} as is_sum,"
            f" (select {quoted(name)}::double from ({self._of(name, only, 'since', 'until')}))"
            f" as value,"
            f" (select {quoted(name)}::double from ({self._of(name, only, 'before', 'since')}))"
            f" as earlier, * from ({_known(one)})"
            for number, name in enumerate(self.metrics)
            for one in (metric_named(name, self.files),)
        ]
        return (
            f"with {_PERIODS['asked']}\n"
            "select figure, metric, unit, is_sum, value, earlier, days, known_days,"
            " known_days_before, since_date, until_date - 1 as last_date, before_date\n"
            f"from ({' union all '.join(rows)}), asked\norder by place"
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
        metric = metric_named(name, self.files)
        missing = "0" if metric.is_sum else "null"  # no share is not a share of 0
        value, earlier = (f"coalesce({side}.{quoted(name)}, {missing})" for side in "nb")
        return (
            f"with {_PERIODS['asked']}\n"
            f"select {shown}, n.{quoted(name)}, b.{quoted(name)} as {quoted(f'earlier_{name}')},"
            f" {value} - {earlier} as {quoted(f'more_{name}')}\n"
            f"from ({now}) as n full join ({before}) as b on {same}\n"
            f"where {value} <> {earlier} and (select known_days_before > 0"
            f" and known_days_before = known_days from ({_known(metric)}))\n"
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
        compiled = compile_metrics(asked, schema=SCHEMA, files=self.files).sql
        for end, day in (("since", since), ("until", until)):
            compiled = compiled.replace(f"$period_{end}", f"(select {day}_date from asked)")
        return compiled

    @staticmethod
    def _columns(part: str) -> Sequence[str]:
        return ("router_id", "router_name") if part == "router" else (part,)


@lru_cache(maxsize=128)
def _sql(panel: MetricPanel, narrowing: frozenset[str], files: Files) -> str:
    known = _shipped(files).get(sql_key(panel, narrowing))
    return known or panel.written(narrowing)


@lru_cache(maxsize=128)
def _narrowing(panel: MetricPanel, files: Files) -> frozenset[str]:
    known = _shipped(files).get(repr(panel))
    return narrowing_of(panel, files) if known is None else frozenset(known.split())


def narrowing_of(panel: MetricPanel, files: Files) -> frozenset[str]:
    """Return the filters that narrow a panel's metrics. Raises: UsageError."""
    from fleetlake.semantic_layer.compiled import dimensions  # noqa: PLC0415 - it takes 0.7 s

    chosen = [metric_named(name, files) for name in panel.metrics]
    # Metrics are compared each for itself, so they share a dimension by its name only.
    each: list[tuple[str, ...]] = [(name,) for name in panel.metrics]
    asked = each if panel.is_compared else [panel.metrics]
    found = set.intersection(*({*dimensions(one, schema=SCHEMA, files=files)} for one in asked))
    found |= {"router"} if "router_name" in found else set()
    if len(asked) > 1:
        found.discard("carrier")  # of a backup, a line or a device
    monthly = panel.grain != "month" and any(one.is_monthly for one in chosen)
    times = () if monthly or any(one.is_now for one in chosen) else _TIMES
    return frozenset([*(name for name, of in FILTERS.items() if of in found), *times])


def sql_key(panel: MetricPanel, narrowing: frozenset[str]) -> str:
    """Return what the SQL of a panel with these filters depends on."""
    return f"{panel} {sorted(narrowing)}"


@lru_cache(maxsize=2)
def _shipped(files: Files) -> Mapping[str, str]:
    """Return the SQL of shipped panels, and their filters; nothing for other files of metrics."""
    held: dict[str, str] = json.loads(WRITTEN.read_text("utf-8"))
    return held if held.get("files") == digest(files) else {}


def digest(files: Files) -> str:
    """Return what tells files of metrics from others."""
    return sha256(b"".join(file.read_bytes() for file, at in files if at)).hexdigest()


def _known(metric: MetricDefinition) -> str:
    """Return the query of the days that are known of a metric."""
    return _PERIODS["known"].format(
        streams=f"[{', '.join(map(literal, metric.streams))}]::varchar[]"
    )
