"""The pages as data: each file in `pages/` is a page, with the SQL of its panels.

A panel is one named query and how it is drawn. Values come from outside only as parameters of the
statement (`$router`); the text of a statement is composed of what the page's file says. `{filters}`
stands for the conditions of the filters that are set.

Columns need no declaration: their names say their unit (docs/reference/mart-columns.md), and a
column that is not one of the panel's marts has its origin in `of`.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from fleetlake.errors import UsageError

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

    `filters` maps a filter to its condition; `needs` are parameters that must be given; `beside`
    are filters that plainly have no meaning here, so that the page need not say so; `of` maps an
    output column to where it comes from; `since` is the column that says how far back the rows go,
    as `mart.column`; `draw` is for the script that draws this `kind`. A panel `is_for_report` is in
    no page, which shows the same when a reader asks for it.
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
    filters: Mapping[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    of: Mapping[str, str] = field(default_factory=dict)
    draw: Mapping[str, Any] = field(default_factory=dict)

    @property
    def path(self) -> str:
        """The address of its rows."""
        return f"/api/{self.page}/{self.name}"

    def applied(self, given: Mapping[str, object]) -> tuple[str, ...]:
        """Return the given filters that this panel has a condition for."""
        used = set(_PARAMETER.findall(self.sql))
        return tuple(name for name in given if name in self.filters or name in used)

    def statement(self, given: Mapping[str, object], *, rows: int) -> tuple[str, dict[str, object]]:
        """Return the SQL for at most `rows` rows, and its parameters.

        Raises: UsageError if a parameter that the query needs is missing.
        """
        if missing := [name for name in self.needs if name not in given]:
            raise UsageError(f"Choose a {' and a '.join(missing)} first.")
        conditions = [f"and ({self._condition(name)})" for name in self.filters if name in given]
        sql = self.sql.replace("{filters}", " ".join(conditions)).rstrip()
        used = set(_PARAMETER.findall(sql))
        return f"{sql}\nlimit {rows:d}", {name: given.get(name) for name in used}

    def _condition(self, name: str) -> str:
        condition = self.filters[name]
        return _DEVICES[name] if condition == BY_DEVICE else condition


@dataclass(frozen=True, kw_only=True)
class DashboardPage:
    """A page: what it answers, the filters it offers, and its panels in order."""

    slug: str
    title: str
    about: str
    order: int
    filters: tuple[str, ...]
    panels: Mapping[str, Panel]
    is_listed: bool = True


@cache
def dashboard_pages() -> Mapping[str, DashboardPage]:
    """Return the pages by slug, in the order of the menu."""
    folder = files("fleetlake.dashboard") / "pages"
    found = [
        _page(file.name.removesuffix(".toml"), tomllib.loads(file.read_text(encoding="utf-8")))
        for file in folder.iterdir()
        if file.name.endswith(".toml")
    ]
    return {page.slug: page for page in sorted(found, key=lambda page: page.order)}


def panel_at(page: str, name: str) -> Panel:
    """Return a panel. Raises: LookupError."""
    return dashboard_pages()[page].panels[name]


def _page(slug: str, written: dict[str, Any]) -> DashboardPage:
    panels = {name: _panel(slug, name, panel) for name, panel in written.pop("panels").items()}
    return DashboardPage(
        slug=slug, **{**written, "filters": tuple(written["filters"]), "panels": panels}
    )


def _panel(page: str, name: str, written: dict[str, Any]) -> Panel:
    lists = {key: tuple(written[key]) for key in ("marts", "needs", "beside") if key in written}
    return Panel(page=page, name=name, **{**written, **lists})
