"""The HTML of a page without its rows: menu, filters, and a place for each panel. Pure.

Scripts fill the panels. No text of the service is in here, and every text is escaped.
"""

import html
import json
from collections.abc import Mapping
from urllib.parse import urlencode

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
    kept = {name: given[name] for name in KEPT if given.get(name)}
    panels = "\n".join(_panel(panel) for panel in page.panels.values() if not panel.is_for_report)
    return _document(
        page.title,
        f"""<a class="skip" href="#content">Skip to the content</a>
<header>
  <a class="brand" href="/now">fleetlake</a>
  <button type="button" id="pages" aria-expanded="false" aria-controls="menu"><span class="hidden">
Pages; this is </span>{html.escape(page.title)}</button>
  <nav id="menu" aria-label="Pages"><ul>{_menu(page, kept)}</ul></nav>
  <button type="button" id="search"><svg viewBox="0 0 16 16" aria-hidden="true">
<circle cx="7" cy="7" r="4.5"/><path d="M10.5 10.5 14 14"/></svg>
<span>Search</span> <kbd>/</kbd></button>
  <p id="age" role="status">Reading …</p>
  <details class="menu" id="view"><summary>View</summary>
  <div role="group" aria-label="How values are shown">
    {_switch("zone", "Times", {"utc": "UTC", "local": "of this browser"})}
    {_switch("units", "Units", {"metric": "km, °C", "us": "miles, °F"})}
    {_switch("theme", "Colours", {"auto": "as the system", "light": "light", "dark": "dark"})}
    <button type="button" id="share">Copy link</button>
    <p id="data-age"></p>
  </div></details>
</header>
{_filters(page, given)}
<main id="content" tabindex="-1">
  <div class="title"><h1>{html.escape(page.title)}</h1>
  <p class="about">{html.escape(page.about)}</p><p id="shown"></p></div>
  <div class="panels">
{panels}
  </div>
</main>
<noscript><p class="problem">This page needs JavaScript, which it loads from its own server only.
</p></noscript>""",
        slug=page.slug,
    )


def login_html(*, is_wrong: bool) -> str:
    """Return the page that asks for the token."""
    wrong = '<p class="problem" role="alert">That is not the token.</p>' if is_wrong else ""
    return _document(
        "Log in",
        f"""<main id="content" class="login"><h1>fleetlake</h1>{wrong}
<form method="post" action="/login">
<label for="token">Token of this dashboard</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus>
<button>Log in</button></form>
<p>It is FLEETLAKE_DASHBOARD_TOKEN of the server.</p></main>""",
        slug="login",
    )


def problem_html(what: str, remedy: str) -> str:
    """Return a page that says what is wrong, and what to do."""
    return _document(
        "Not found",
        f'<main id="content" class="login"><h1>{html.escape(what)}</h1>'
        f"<p>{html.escape(remedy)}</p></main>",
        slug="problem",
    )


def _document(title: str, body: str, *, slug: str) -> str:
    is_page = slug in dashboard_pages()
    script = '<script type="module" src="/static/main.js"></script>' if is_page else ""
    return f"""<!doctype html>
<html lang="en" data-page="{html.escape(slug)}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)} · fleetlake</title>
<link rel="icon" href="/static/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/static/fleet.css">
<script src="/static/theme.js"></script>
{script}
</head>
<body>
{body}
</body>
</html>
"""


def _menu(current: DashboardPage, kept: Mapping[str, str]) -> str:
    lists = {page.under for page in dashboard_pages().values() if "router" in page.needs}

    def address(page: DashboardPage) -> str:
        """Return a link; a list is of all things, not of the chosen one."""
        given = {name: kept[name] for name in kept if name != "router" or page.slug not in lists}
        return html.escape(f"/{page.slug}?{urlencode(given)}" if given else f"/{page.slug}")

    here = ' aria-current="page"'
    shown = current.under or current.slug
    return "".join(
        f'<li><a href="{address(page)}"{here if page.slug == shown else ""}>'
        f"{html.escape(page.title)}</a></li>"
        for page in dashboard_pages().values()
        if page.is_listed and not page.under
    )


def _switch(name: str, label: str, choices: Mapping[str, str]) -> str:
    return (
        f'<label for="{name}">{html.escape(label)}</label>'
        f'<select id="{name}">{_options(choices)}</select>'
    )


def _options(choices: Mapping[str, str], chosen: str = "") -> str:
    return "".join(
        f'<option value="{html.escape(value)}"{" selected" if value == chosen else ""}>'
        f"{html.escape(text)}</option>"
        for value, text in choices.items()
    )


def _filters(page: DashboardPage, given: Mapping[str, str]) -> str:
    """Return the form of the filters; scripts fill in the choices."""
    if not page.filters:
        return ""
    fields = [
        f'<div><label for="f-{name}">{name.capitalize()}</label>'
        f'<select id="f-{name}" name="{name}"><option value="">all</option></select></div>'
        for name in ("account", "group", "carrier", "type")
        if name in page.filters
    ]
    if "router" in page.filters:
        router = html.escape(given.get("router", ""))
        fields.append(
            '<div><label for="f-search">Router</label><input id="f-search" type="search" '
            'list="routers" autocomplete="off" placeholder="all: type a name">'
            '<datalist id="routers"></datalist>'
            f'<input id="f-router" name="router" type="hidden" value="{router}"></div>'
        )
    if "time" in page.filters:
        fields += _time_fields(given)
    return (
        '<button type="button" id="narrow" aria-expanded="false" aria-controls="filters">Filters'
        '</button><form id="filters" role="search" aria-label="Filters">'
        f"{''.join(fields)}"
        '<button type="reset">Clear</button></form>'
    )


def _time_fields(given: Mapping[str, str]) -> list[str]:
    """Return a choice of ranges up to the newest event, and two fields for any other."""
    is_fixed = bool(given.get("from") or given.get("to"))
    chosen = "" if is_fixed else given.get(LAST, DEFAULT_RANGE)
    ends = [
        f'<div class="range"><label for="f-{name}">{name.capitalize()}</label>'
        f'<input id="f-{name}" name="{name}" type="datetime-local"></div>'
        for name in ("from", "to")
    ]
    choice = (
        f'<div><label for="f-last">Time</label><select id="f-last" name="{LAST}">'
        f"{_options(_RANGES, chosen)}</select></div>"
    )
    return [choice, *ends]


def _panel(panel: Panel) -> str:
    """Return the place of one panel, with what its script needs to know."""
    what = {
        "path": panel.path,
        "kind": panel.kind,
        "empty": panel.empty,
        "needs": panel.needs,
        "draw": panel.draw,
    }
    name = html.escape(panel.name)
    about = f'<p class="about">{html.escape(panel.about)}</p>' if panel.about else ""
    wide = " wide" if panel.is_wide else ""
    marts = html.escape(", ".join(panel.marts))
    title = html.escape(panel.title)
    return f"""<section class="panel{wide}" id="{name}"
 aria-labelledby="{name}-title" data-panel="{html.escape(json.dumps(what))}">
<div class="head"><h2 id="{name}-title">{title}</h2>{about}
<details class="menu"><summary title="Export, and where this comes from"><span aria-hidden="true">
⋯</span><span class="hidden">Export and origin of {title}</span></summary><div>
<a class="export" data-format="csv" href="{panel.path}.csv" download>CSV</a>
<a class="export" data-format="csv" data-proof="header" download
 href="{panel.path}.csv">CSV with its proof</a>
<a class="export" data-format="parquet" href="{panel.path}.parquet" download>Parquet</a>
<details><summary>Where this comes from</summary>
<p>Marts: {marts}. Exports hold up to {EXPORTED_ROWS:,} rows.</p>
<div class="origin"></div></details>
</div></details></div>
<div class="body" aria-busy="true"><p class="wait">Reading …</p></div>
</section>"""
