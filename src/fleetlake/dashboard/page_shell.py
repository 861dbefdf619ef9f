"""The HTML of a page without its rows: menu, filters, and a place for each panel. Pure.

Scripts fill the panels. No text of the service is in here, and templates escape every text.
"""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader

from fleetlake.dashboard.panels import EXPORTED_ROWS, DashboardPage, Panel, dashboard_pages
from fleetlake.dashboard.parameters import LAST

KEPT = ("account", "group", "router", "carrier", LAST, "from", "to")
"""The filters that the menu's links carry from page to page."""

_RANGES = {
    "1h": "the last hour",
    "6h": "the last 6 hours",
    "24h": "the last 24 hours",
    "7d": "the last 7 days",
    "30d": "the last 30 days",
    "90d": "the last 90 days",
    "all": "all time",
    "": "from, to",
}
DEFAULT_RANGE = "7d"


def page_html(page: DashboardPage, given: Mapping[str, str]) -> str:
    """Return a page; `given` are the parameters of its address."""
    is_fixed = bool(given.get("from") or given.get("to"))
    return rendered(
        "page.html",
        slug=page.slug,
        title=page.title,
        page=page,
        given=given,
        menu=_menu(page, {name: given[name] for name in KEPT if given.get(name)}),
        ranges=_RANGES,
        range="" if is_fixed else given.get(LAST, DEFAULT_RANGE),
        panels=[panel for panel in page.panels.values() if not panel.is_for_report],
        exported_rows=f"{EXPORTED_ROWS:,}",
    )


def login_html(*, is_wrong: bool) -> str:
    """Return the page that asks for the token."""
    return rendered("login.html", slug="login", title="Log in", is_wrong=is_wrong)


def problem_html(what: str, remedy: str) -> str:
    """Return a page that says what is wrong, and what to do."""
    return rendered("problem.html", slug="problem", title="Not found", what=what, remedy=remedy)


def rendered(template: str, **values: object) -> str:
    """Return one of the templates with these values."""
    return _templates().get_template(template).render(values)


@cache
def _templates() -> Environment:
    templates = Environment(
        loader=PackageLoader("fleetlake.dashboard"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.globals["drawing"] = _drawing
    return templates


def _drawing(panel: Panel, *more: str) -> str:
    """Return what the script of a panel needs to know, as JSON."""
    return json.dumps(
        {key: getattr(panel, key) for key in ("path", "kind", "empty", "draw", *more)}
    )


def _menu(current: DashboardPage, kept: Mapping[str, str]) -> Iterator[tuple[str, str, bool]]:
    """Yield address and title of each page, and whether it is the current one."""
    lists = {page.under for page in dashboard_pages().values() if "router" in page.needs}
    for page in dashboard_pages().values():
        if page.is_listed and not page.under:
            # A list is of all things, not of the chosen one.
            given = {
                name: kept[name] for name in kept if name != "router" or page.slug not in lists
            }
            address = f"/{page.slug}?{urlencode(given)}" if given else f"/{page.slug}"
            yield address, page.title, page.slug == (current.under or current.slug)
