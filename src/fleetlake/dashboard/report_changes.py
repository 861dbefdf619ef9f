"""The first page of a report: what changed since the period before, in five figures and in words.

Both periods are whole UTC days. Where the period before is known in part only, days are compared.
"""

import html
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from fleetlake.dashboard.open_snapshots import PublishedSnapshot
from fleetlake.errors import FleetlakeError
from fleetlake.text.plain import one_line

LONGEST_NAME = 60
UNKNOWN = "?"
DAYS = 7
GB = 1e9


@dataclass(frozen=True)
class Period:
    """Whole UTC days: the first, and how many."""

    first: date
    days: int

    @property
    def given(self) -> Mapping[str, object]:
        """The parameters of a query over these days."""
        return {"first": self.first, "after": self.first + timedelta(days=self.days)}

    def __str__(self) -> str:
        """Return the first and the last day."""
        return f"{self.first} to {self.first + timedelta(days=self.days - 1)}"


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure of a period: its SQL over a mart with one row or more a day, and how it is said.

    `known` is the column with the days for which the figure is known; `most` is a query of what
    contributed most; a share does not grow with the number of days.
    """

    title: str
    value: str
    day: str
    written: Callable[[float], str]
    says: str
    known: str = ""
    most: str = ""
    is_share: bool = False

    @property
    def marts(self) -> tuple[str, ...]:
        """The marts that it is read from."""
        return tuple({one.partition(".")[0]: None for one in (self.day, self.known) if one})

    def read(self, snapshot: PublishedSnapshot, period: Period) -> tuple[float | None, int]:
        """Return the value in a period, and for how many of its days it is known."""
        snapshot.require(self.marts)
        mart, _, column = (self.known or self.day).partition(".")
        days = f"select count(distinct {column}) as n from {mart} where {_within(column)}"
        mart, _, column = self.day.partition(".")
        value = f"select ({self.value})::double as n from {mart} where {_within(column)}"
        found = [snapshot.rows(sql, period.given).column("n")[0].as_py() for sql in (value, days)]
        return (found[0], found[1]) if found[1] else (None, 0)


def _within(column: str) -> str:
    return f"{column} >= $first and {column} < $after"


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _percent(value: float) -> str:
    return f"{value:.2f} %"


def _bytes(value: float) -> str:
    return f"{value / GB:,.1f} GB" if value >= GB else f"{value / 1e6:,.1f} MB"


FIGURES = (
    Figure(
        title="Availability",
        value="100 * sum(primary_s + backup_s) / sum(known_s)",
        day="wan_availability_daily.wan_date",
        written=_percent,
        says="Sites were connected {value} of the known time{change}.",
        is_share=True,
    ),
    Figure(
        title="Failovers",
        value="coalesce(sum(episodes_started), 0)",
        day="failover_daily.failover_date",
        known="wan_availability_daily.wan_date",
        written=_count,
        says="{value} failovers began{change}.",
        most="select coalesce(any_value(router_name), 'router ' || router_id) as name, "
        "sum(episodes_started) as n from failover_daily "
        f"where {_within('failover_date')} group by router_id",
    ),
    Figure(
        title="Data on backup",
        value="coalesce(sum(backup_bytes), 0)",
        day="failover_daily.failover_date",
        known="wan_availability_daily.wan_date",
        written=_bytes,
        says="{value} went over backup lines{change}.",
    ),
    Figure(
        title="Alerts",
        value="sum(alerts)",
        day="alert_volume.alert_date",
        written=_count,
        says="The fleet raised {value} alerts{change}.",
        most="select alert_type as name, sum(alerts) as n from alert_volume "
        f"where {_within('alert_date')} group by alert_type",
    ),
)

ATTENTION = "New attention"
_NEW = """
select replace(reason, '_', ' ') as name,
    count(*) filter (since_at::date >= $first) as n, count(*) as open
from attention
group by reason
"""


def changes_html(snapshot: PublishedSnapshot, *, days: int) -> str:
    """Return the first page: the last whole days compared with those before."""
    until = snapshot.described.as_of.date()
    last = Period(until - timedelta(days=days), days)
    before = Period(last.first - timedelta(days=days), days)
    since = "since last week" if days == DAYS else f"in {days} days"
    cards, words = "", ""
    for title, value, change, sentence in _found(snapshot, last, before):
        cards += (
            f'<div class="card"><dt>{html.escape(title)}</dt><dd>{html.escape(value)}</dd>'
            f"<dd>{html.escape(change)}</dd></div>"
        )
        words += f"<li>{html.escape(sentence)}</li>"
    return (
        f'<section id="changes"><h2>What changed {since}</h2>'
        f'<p class="about">{last}, compared with {before} (UTC days).</p>'
        f'<dl class="cards">{cards}</dl><ul>{words}</ul></section>'
    )


def _found(
    snapshot: PublishedSnapshot, last: Period, before: Period
) -> Iterator[tuple[str, str, str, str]]:
    """Yield of each figure its title, value, change, and a sentence."""
    for figure in FIGURES:
        try:
            yield (figure.title, *_said(figure, snapshot, last, before))
        except FleetlakeError as problem:  # an older snapshot may lack a mart
            yield figure.title, UNKNOWN, "not published", f"{figure.title}: {problem.what}"
    try:
        snapshot.require(("attention",))
        rows = snapshot.rows(_NEW, {"first": last.first}).to_pylist()
    except FleetlakeError as problem:
        yield ATTENTION, UNKNOWN, "not published", f"{ATTENTION}: {problem.what}"
        return
    new, is_open = (sum(row[key] for row in rows) for key in ("n", "open"))
    most = _most(rows)
    what = f"{_count(new)} of {_count(is_open)} findings that need a person are new{most}."
    yield ATTENTION, _count(new), f"of {_count(is_open)}", what


def _said(
    figure: Figure, snapshot: PublishedSnapshot, last: Period, before: Period
) -> tuple[str, str, str]:
    value, days = figure.read(snapshot, last)
    if value is None:
        return UNKNOWN, "not known", f"{figure.title}: not known for these days."
    earlier, known = figure.read(snapshot, before)
    if earlier is None:
        change, clause = "nothing known before", ""
    else:
        change = change_in_words(figure, (value, days), (earlier, known), before.days)
        clause = f", {change}"
    most = ""
    if figure.most:
        most = _most(snapshot.rows(figure.most, last.given).to_pylist())
    sentence = figure.says.format(value=figure.written(value), change=clause)
    return figure.written(value), change, f"{sentence.removesuffix('.')}{most}."


def change_in_words(
    figure: Figure, now: tuple[float, int], then: tuple[float, int], days: int
) -> str:
    """Return how a value differs from the one before; both have the number of known days.

    Where one of them is not known for all `days`, the values are compared per day.
    """
    value, known = now
    earlier, known_before = then
    said = f"{figure.written(earlier)} before"
    if figure.is_share:
        return f"{value - earlier:+.2f} points ({said})"
    if known_before < days or known < days:
        said += f" in {known_before} known days" if known_before != 1 else " in 1 known day"
    rate, rate_before = value / known, earlier / known_before
    if not rate_before:
        return said if value else f"as before ({said})"
    share = 100 * (rate / rate_before - 1)
    a_day = " a day" if "known" in said else ""
    if abs(share) < 0.5:  # noqa: PLR2004 - rounds to 0 %
        return f"as many{a_day} as before ({said})"
    return f"{abs(share):,.0f} % {'more' if share > 0 else 'less'}{a_day} ({said})"


def _most(rows: list[dict[str, Any]]) -> str:
    """Return what contributed most, in words; empty if nothing did."""
    found = sorted((row for row in rows if row["n"]), key=lambda row: (-row["n"], str(row["name"])))
    named = (f"{one_line(row['name'], LONGEST_NAME)} ({_count(row['n'])})" for row in found[:3])
    return f"; most: {', '.join(named)}" if found else ""
