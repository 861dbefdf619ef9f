"""The pages as data: each file is a page, with the SQL of its panels.

The files in `pages/` come with fleetlake; those in the folder `dashboard` of a project are its own.
A page that is wrong is a page that says so, and so is a panel: the others are shown.

A panel is one named query and how it is drawn. Values come from outside only as parameters of the
statement (`$router`); the text of a statement is composed of what the page's file says. `{filters}`
stands for the conditions of the filters that are set.

Columns need no declaration: their names say their unit (docs/reference/mart-columns.md), and a
column that is not one of the panel's marts has its origin in `of`.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import duckdb

from fleetlake.dashboard.metric_panels import MetricPanel
from fleetlake.dashboard.page_format import (
    METRIC_KEYS,
    PAGE_KEYS,
    Fault,
    own_kind_faults,
    page_faults,
    panel_faults,
    slug_fault,
)
from fleetlake.errors import UsageError
from fleetlake.machine.project import found_project
from fleetlake.text.quoting import quoted

OWN_PAGES = "dashboard"
"""Folder of a project with pages of its own."""

OWN_ORDER = 100
"""Place in the menu of a page that names none: after the shipped ones."""

SHOWN_ROWS = 500
"""Rows that a panel shows, unless its file says otherwise."""

EXPORTED_ROWS = 200_000
"""Rows that an export holds at most."""

BY_DEVICE = "by_device"
"""Short for a filter on the device's present account, group or carrier."""

_DEVICES = {
    "account": "router_id in (select router_id from device_inventory where account_id = $account)",
    "group": "router_id in (select router_id from device_inventory where group_id = $group)",
    "carrier": "router_id in (select router_id from device_inventory where carrier = $carrier)",
    "router": "router_id = $router",
}
_PARAMETER = re.compile(r"\$(\w+)")


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One named query, and how its rows are drawn.

    The SQL of a panel with `metrics` reads them as `{metrics}`; without SQL, it shows them.
    `filters` maps a filter to its condition; `needs` are parameters that must be given; `beside`
    are filters that plainly have no meaning here, so that the page need not say so; `of` maps an
    output column to where it comes from; `since` is the column that says how far back the rows go,
    as `mart.column`; `draw` is for the script that draws this `kind`. A panel `is_for_report` is in
    no page, which shows the same when a reader asks for it; one that is not `is_in_report` is in
    pages only. A panel with a `fault` says what is wrong instead of its rows.
    """

    page: str
    name: str
    title: str
    sql: str
    marts: tuple[str, ...]
    kind: str = "table"
    about: str = ""
    empty: str = "Nothing to show for these filters."
    since: str = ""
    limit: int = SHOWN_ROWS
    is_wide: bool = True
    is_for_report: bool = False
    is_in_report: bool = True
    filters: Mapping[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    of: Mapping[str, str] = field(default_factory=dict)
    draw: Mapping[str, Any] = field(default_factory=dict)
    metrics: MetricPanel | None = None
    fault: Fault | None = None

    @property
    def path(self) -> str:
        """The address of its rows."""
        return f"/api/{self.page}/{self.name}"

    def applied(self, given: Mapping[str, object]) -> tuple[str, ...]:
        """Return the given filters that this panel has a condition for."""
        used = {*_PARAMETER.findall(self.sql), *self.filters}
        if self.metrics:
            used |= self.metrics.narrowing.difference(self.beside)
        return tuple(name for name in given if name in used)

    def of_table(self, table: object) -> "Panel":
        """Return the panel over a chosen table, if its SQL reads `{table}`."""
        if "{table}" not in self.sql or not isinstance(table, str):
            return self
        return replace(self, marts=(table,), sql=self.sql.replace("{table}", quoted(table)))

    def statement(self, given: Mapping[str, object], *, rows: int) -> tuple[str, dict[str, object]]:
        """Return the SQL for at most `rows` rows, and its parameters.

        Raises: UsageError if a parameter that the query needs is missing, or the panel is wrong.
        """
        if self.fault:
            raise UsageError(str(self.fault), remedy=self.fault.remedy)
        if missing := [name for name in self.needs if name not in given]:
            raise UsageError(f"Choose a {' and a '.join(missing)} first.")
        conditions = [f"and ({self._condition(name)})" for name in self.filters if name in given]
        written = self.sql or "select * from {metrics}\n{order}"
        if self.metrics:
            written = written.replace("{metrics}", f"({self.metrics.sql(self.beside)})")
        sql = written.replace("{filters}", " ".join(conditions)).rstrip("; \n")
        sql = sql.replace("{order}", _order(given.get("sort", self.draw.get("sort"))))
        _parameters(sql, remedy="Write one SELECT, with `where true` before {filters}.")
        sql = f"{sql}\nlimit {rows:d}"
        used = _parameters(sql, remedy="Leave out LIMIT: the key `limit` is for it.")
        return sql, {name: given.get(name) for name in used}

    def _condition(self, name: str) -> str:
        condition = self.filters[name]
        return _DEVICES[name] if condition == BY_DEVICE else condition


def _order(column: object) -> str:
    """Return the order by a column; a name that begins with `-` is in descending order."""
    if not isinstance(column, str):
        return ""
    way = "desc" if column.startswith("-") else "asc"
    return f"order by {quoted(column.removeprefix('-'))} {way} nulls last, 1"


def _parameters(sql: str, *, remedy: str) -> set[str]:
    """Return the parameters of one query. Raises: UsageError if it is anything else."""
    try:
        statements = duckdb.extract_statements(sql)
    except duckdb.Error as error:
        what = str(error).partition("\n\n")[0]
        raise UsageError(f"DuckDB rejected the query: {what}.", remedy=remedy) from None
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise UsageError("The SQL is not one query.", remedy=remedy)
    return {str(name) for name in statements[0].named_parameters}


@dataclass(frozen=True, kw_only=True)
class DashboardPage:
    """A page: what it answers, the filters it offers, its panels in order, and its file's faults.

    The file is the project's own, or empty for a shipped page. A page of one thing is `under` the
    page that lists them: it is not in the menu, and leads there until a thing is chosen.
    """

    slug: str
    title: str
    panels: Mapping[str, Panel]
    about: str = ""
    order: int = OWN_ORDER
    filters: tuple[str, ...] = ()
    is_listed: bool = True
    under: str = ""
    file: Path | None = None
    faults: tuple[Fault, ...] = ()

    @property
    def needs(self) -> frozenset[str]:
        """The parameters that choose the thing which it is about."""
        return frozenset(name for panel in self.panels.values() for name in panel.needs)


def dashboard_pages() -> Mapping[str, DashboardPage]:
    """Return the pages by slug, in the order of the menu: the shipped and the project's own.

    A file of the project is read again when it has changed.
    """
    return _pages_with(tuple(_own_files()))


def own_pages() -> list[DashboardPage]:
    """Return the pages of the project."""
    return [page for page in dashboard_pages().values() if page.file]


def panel_at(page: str, name: str) -> Panel:
    """Return a panel. Raises: LookupError."""
    return dashboard_pages()[page].panels[name]


def _own_files() -> Iterator[tuple[Path, int, int]]:
    """Yield each file of the project's pages, with what changes when it does."""
    project = found_project()
    for file in sorted((project / OWN_PAGES).glob("*.toml")) if project else ():
        try:
            found = file.stat()
        except OSError:  # a link to nothing: reading it says so
            yield file, 0, 0
        else:
            yield file, found.st_mtime_ns, found.st_size


@lru_cache(maxsize=4)
def _pages_with(own: tuple[tuple[Path, int, int], ...]) -> Mapping[str, DashboardPage]:
    found = dict(_shipped())
    for number, (file, *_) in enumerate(own, start=1):
        name = slug_fault(file.stem, _shipped())
        slug = f"own-{number}" if name else file.stem
        found[slug] = _own_page(slug, file, [name] if name else [])
    return dict(sorted(found.items(), key=lambda item: (item[1].order, item[0])))


@cache
def _shipped() -> Mapping[str, DashboardPage]:
    folder = files("fleetlake.dashboard") / "pages"
    return {
        slug: _page(slug, written, faults=[*page_faults(written)])
        for file in folder.iterdir()
        if (slug := file.name.removesuffix(".toml")) != file.name
        for written in [tomllib.loads(file.read_text(encoding="utf-8"))]
    }


def _own_page(slug: str, file: Path, faults: list[Fault]) -> DashboardPage:
    """Return a page of the project."""
    try:
        written = tomllib.loads(file.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        why = (error.strerror if isinstance(error, OSError) else "") or str(error)
        faults.append(Fault(what=f"It cannot be read: {why}.", remedy="Correct the file."))
        return _page(slug, {"title": file.name, "panels": {}}, file=file, faults=faults)
    panels = written.get("panels")
    faults += own_kind_faults(panels if isinstance(panels, dict) else {})
    faults += page_faults(written)
    title = file.name if slug != file.stem else written.get("title", file.name)
    return _page(slug, {**written, "title": title}, file=file, faults=faults)


def _page(
    slug: str, written: Mapping[str, Any], *, file: Path | None = None, faults: list[Fault]
) -> DashboardPage:
    """Return a page; a panel that is wrong says so, and a first one what is wrong with the page."""
    panels = written["panels"] if isinstance(written.get("panels"), dict) else {}
    found = [*faults, *(fault for name in panels for fault in panel_faults(name, panels[name]))]
    wrong_keys = {fault.key for fault in found if not fault.panel}
    kept = {key: written[key] for key in PAGE_KEYS if key in written and key not in wrong_keys}
    shown: dict[str, Panel] = {}
    for fault in found:
        if not fault.panel and not shown:
            title = "What is wrong with this page"
            shown["fault"] = _faulty(slug, "fault", title, fault)
    for number, (name, one) in enumerate(panels.items()):
        wrong = next((fault for fault in found if fault.panel == name), None)
        if wrong:  # its name may be what is wrong
            shown[f"fault_{number}"] = _faulty(slug, f"fault_{number}", name, wrong)
        else:
            shown[name] = _panel(slug, name, one, is_own=file is not None)
    kept |= {"filters": tuple(kept.get("filters", ())), "panels": shown}
    return DashboardPage(slug=slug, file=file, faults=tuple(found), **{"title": slug, **kept})


def _faulty(page: str, name: str, title: str, fault: Fault) -> Panel:
    return Panel(page=page, name=name, title=title, sql="", marts=(), fault=fault)


def _panel(page: str, name: str, written: dict[str, Any], *, is_own: bool) -> Panel:
    lists = {key: tuple(written[key]) for key in ("marts", "needs", "beside") if key in written}
    given = {key: value for key, value in written.items() if key not in METRIC_KEYS}
    if "metrics" not in written:
        return Panel(page=page, name=name, **{**given, **lists})
    asked = MetricPanel(
        metrics=tuple(written["metrics"]),
        by=tuple(written.get("by", ())),
        grain=written.get("grain", ""),
        is_compared=written.get("is_compared", False),
        is_own=is_own,
    )
    marts = tuple(dict.fromkeys([*asked.marts, *lists.get("marts", ())]))
    of_metrics = {"marts": marts, "metrics": asked}
    return Panel(page=page, name=name, **{"sql": "", **given, **lists, **of_metrics})
