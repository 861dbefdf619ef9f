"""Looks at every page in Chromium, and prints what it found as JSON lines.

Runs in an environment of its own (`make test-dashboard`), which holds Playwright and not fleetlake:
`python browser.py URL AXE_ARCHIVE FOLDER REPORT TILED_URL`. Screenshots go to the folder. On a line
that says `publish` or `remove tiles` it waits for a line on its input, while the caller does so.
"""

import json
import os
import re
import sys
import tarfile
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from browser_map import map_without_webgl, map_works
from browser_shown import ROUTER, numbers, tiles
from playwright.sync_api import Browser, Page, sync_playwright

PAGES = (
    "/now",
    "/map",
    f"/map?vehicles={ROUTER},1000002&day=2026-11-18",
    "/failover?last=all",
    "/episode?episode=episode_id+3",
    f"/batteries?last=all&router={ROUTER}",
    "/batteries?last=all",
    f"/device?last=all&router={ROUTER}",
    "/devices",
    "/devices?behind=yes&sort=-firmware_version",
    "/usage?last=all",
    "/alerts?last=all",
    "/alerts?last=all&type=reboot",
    "/changes?last=all",
    "/data",
    "/tables?table=failover_episodes&sort=-duration_s",
    "/tables",
)
WIDTHS = (1440, 390)
SLOWEST_MS = 120_000
"""How long a page may take, on a machine that does other work as well."""
MOST_PAGES = 8
THEMES = ("light", "dark")
SOFTWARE = (
    "--no-sandbox",
    "--use-gl=angle",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
)
SIZE = """() => ({
  head: document.querySelector('header')?.offsetHeight,
  top: document.querySelector('main').getBoundingClientRect().top,
  height: document.documentElement.scrollHeight,
  cut: [...document.querySelectorAll('.scroll:has(> .rows)')].filter((one) =>
    innerWidth > 600 && one.scrollWidth > one.clientWidth + 1).map((one) => one.ariaLabel),
  empty: [...document.querySelectorAll('.panel.quiet')].map((one) => one.offsetHeight),
})"""
"""How much of the screen the frame of a page takes, and which tables are cut off."""

AXE_RULES = "{runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice']}"


class Watched:
    """A page of the browser that remembers its errors and every request beyond the server."""

    def __init__(self, browser: Browser, url: str, *, width: int, theme: str, axe: str) -> None:
        self.url = url
        self.width = width
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if theme == "dark" else "light",
            accept_downloads=True,
            timezone_id="America/Denver",
        )
        context.set_default_timeout(SLOWEST_MS)
        self.page: Page = context.new_page()
        self.page.add_init_script(axe)
        self.errors: list[str] = []
        self.foreign: list[str] = []
        self.page.on("request", self._request)
        self.page.on("console", lambda m: self._error(m.text) if m.type == "error" else None)
        self.page.on("pageerror", lambda error: self._error(str(error)))
        self.page.on("dialog", lambda dialog: (self._error("a dialog opened"), dialog.dismiss()))

    def _request(self, request: Any) -> None:
        if not request.url.startswith((self.url, "data:", "blob:")):
            self.foreign.append(request.url)

    def _error(self, text: str) -> None:
        self.errors.append(text)

    def open(self, path: str) -> None:
        """Open a path and wait until every panel is drawn."""
        self.page.goto(self.url + path)
        self.settle()

    def settle(self) -> None:
        """Wait until no panel is being read and the map, if there is one, is drawn."""
        for _ in range(SLOWEST_MS // 150):
            self.page.wait_for_timeout(150)
            if self.page.evaluate(
                "document.querySelectorAll('.body[aria-busy=true]').length === 0"
            ):
                return
        self._error("the page is still reading after two minutes")

    def found(self) -> dict[str, Any]:
        """Return what is wrong on the page, and forget it."""
        axe = self.page.evaluate(f"axe.run(document, {AXE_RULES})")
        serious = [
            f"{v['id']}: {v['help']} ({v['nodes'][0]['target']} and {len(v['nodes']) - 1} more)"
            for v in axe["violations"]
            if v["impact"] in {"serious", "critical"}
        ]
        seen = {
            "errors": self.errors[:],
            "foreign": self.foreign[:],
            "axe": serious,
            "axe_passed": len(axe["passes"]),
            "wider_by": self.page.evaluate("document.documentElement.scrollWidth") - self.width,
            "size": self.page.evaluate(SIZE),
            "problems": self.page.locator(".problem").all_inner_texts(),
            "text": self.page.locator("main").inner_text()[:200_000],
        }
        self.errors.clear()
        self.foreign.clear()
        return seen


def looks(browser: Browser, url: str, axe: str, folder: Path) -> Iterator[dict[str, Any]]:
    """Yield what is found on each page, at each width, in each theme."""
    for width in WIDTHS:
        for theme in THEMES:
            watched = Watched(browser, url, width=width, theme=theme, axe=axe)
            for path in PAGES:
                watched.open(path)
                name = f"{path.strip('/').replace('?', '-')}-{width}-{theme}.png"
                found = watched.found()  # a screenshot resizes the page, which draws it again
                watched.page.screenshot(path=folder / name, full_page=True)
                yield {"look": path, "width": width, "theme": theme, **found}
            watched.page.context.close()


def report_opens(browser: Browser, file: str, axe: str) -> Iterator[dict[str, Any]]:
    """Yield what is found in a report that is opened as a file."""
    for width in WIDTHS:
        watched = Watched(browser, file, width=width, theme="light", axe="")
        watched.open("")
        watched.page.wait_for_timeout(300)
        watched.page.evaluate("document.querySelector('meta[http-equiv]')?.remove()")
        watched.page.evaluate(axe)
        yield {"report": width, **watched.found()}
        if width == WIDTHS[0]:
            printed = watched.page.pdf(prefer_css_page_size=True)
            pages = len(re.findall(rb"/Type\s*/Page\b", printed))
            is_short = 1 < pages <= MOST_PAGES
            yield {"act": f"the report of {pages} pages has 8 at most", "is_right": is_short}
        watched.page.context.close()


def filters_work(watched: Watched) -> Iterator[dict[str, Any]]:
    """Yield what people do with the filters and tables of a page."""
    page = watched.page
    watched.open("/failover?last=all")
    page.keyboard.press("Tab")
    first = page.evaluate("document.activeElement.className")
    yield {"act": "the first stop of the Tab key skips the menu", "is_right": first == "skip"}

    rows = page.locator("#episodes .body tbody tr")
    before = page.locator("#episodes .more").inner_text()
    page.select_option("#f-account", "10")
    watched.settle()
    after = page.locator("#episodes .more").inner_text()
    yield {"act": "a filter is in the address", "is_right": "account=10" in page.url}
    yield {"act": "a filter changes the rows", "is_right": before != after}

    page.go_back()
    watched.settle()
    back = page.locator("#episodes .more").inner_text()
    yield {"act": "Back undoes a filter", "is_right": back == before}

    first_row = rows.first.inner_text()
    page.locator("#episodes thead button", has_text="Duration").click()
    yield {"act": "a heading sorts", "is_right": rows.first.inner_text() != first_row}

    page.locator("#episodes .head > .menu > summary").click()
    with page.expect_download() as started:
        page.locator("#episodes a.export", has_text="CSV").first.click()
    written = Path(started.value.path()).read_text("utf-8")
    yield {"act": "CSV is exported", "is_right": written.startswith('"router_id","router_name"')}

    page.locator("#f-search").fill("V700-Boise")
    page.locator("#f-search").press("Enter")
    watched.settle()
    is_found = "router=1000007" in page.url
    yield {"act": "a router is found by a part of its name", "is_right": is_found}

    page.locator("nav a", has_text="Batteries").click()
    watched.settle()
    kept = "router=1000007" in page.url
    yield {"act": "the menu keeps the filters", "is_right": kept}


def titles_follow(watched: Watched) -> Iterator[dict[str, Any]]:
    """Yield what the page of a device is called, and where it leads without one."""
    heading = watched.page.locator("h1")
    watched.open("/device?router=1000007")
    named = heading.inner_text()
    watched.page.locator("#filters button", has_text="Clear").click()
    watched.settle()
    watched.page.wait_for_url("**/devices*")
    watched.settle()
    is_right = (named, heading.inner_text()) == ("V700-Boise-00007", "Devices")
    yield {"act": "the page of a device has its name until it is cleared", "is_right": is_right}


def drilled_down(watched: Watched) -> Iterator[dict[str, Any]]:
    """Yield how people get from a count to the single things that it counts."""
    page = watched.page
    watched.open("/alerts?last=all")
    page.locator("#types a", has_text="reboot").click()
    page.wait_for_url("**type=reboot*")
    watched.settle()
    page.wait_for_timeout(300)
    said = page.locator("#single .body tbody tr").first.inner_text()
    top = page.evaluate("document.querySelector('#single').getBoundingClientRect().top")
    is_right = page.locator("#f-type").input_value() == "reboot" and "description " in said
    is_right = is_right and "last=all" in page.url and 0 <= top < page.viewport_size["height"]
    yield {"act": "a type of alert leads to what its alerts say", "is_right": is_right}

    watched.open("/failover?last=all")
    row = page.locator("#episodes .body tbody tr").first
    named = row.locator("th").inner_text()
    row.locator("td a").click()
    page.wait_for_url("**/episode?*")
    watched.settle()
    device = page.locator("#identity a.device").inner_text()
    here = page.locator("nav [aria-current]").inner_text()
    is_right = (device, here) == (named, "Failover")
    yield {"act": "the start of a failover leads to all about it", "is_right": is_right}


def devices_found(watched: Watched) -> Iterator[dict[str, Any]]:
    """Yield how people find devices in the inventory, from a number of Now to one device."""
    page = watched.page
    watched.open("/now")
    count = page.locator(".card", has_text="Behind on firmware").locator("dd").inner_text()
    page.locator(".card", has_text="Behind on firmware").locator("a").click()
    page.wait_for_url("**/devices?*")
    watched.settle()
    rows = page.locator("#list .body tbody tr")
    titled = page.locator("#list h2").inner_text()
    yield {
        "act": "a number of Now leads to exactly those devices",
        "is_right": (titled, rows.count()) == (f"{count} devices", int(count)),
    }

    facet = page.locator(".facets fieldset", has_text="State").get_by_role("button").first
    wanted = facet.locator(".count").inner_text()
    facet.click()
    watched.settle()
    is_right = rows.count() == int(wanted) < int(count) and "state=" in page.url
    yield {"act": "a facet says how many devices it leaves", "is_right": is_right}

    page.locator(".chips button", has_text="Clear all").click()
    watched.settle()
    page.locator("#list .finder").type("V700-Boi")
    page.wait_for_url("**search=V700-Boi*")
    watched.settle()
    is_right = "V700-Boise-00007" in rows.first.inner_text() and "search=V700" in page.url
    is_right = is_right and page.evaluate("document.activeElement.value") == "V700-Boi"
    yield {"act": "a search narrows the devices as one types", "is_right": is_right}

    watched.open("/devices")
    page.locator("#list thead button", has_text="Since").click()
    watched.settle()
    sorted_by = page.locator("#list th[aria-sort=ascending]").inner_text()
    is_right = "sort=state_updated_at" in page.url and sorted_by == "Since"
    yield {"act": "the server sorts the devices", "is_right": is_right}


def time_chosen(watched: Watched) -> Iterator[dict[str, Any]]:
    """Yield what dragging over a chart of time does to the page."""
    page = watched.page
    watched.open("/failover?last=30d")
    rows = page.locator("#episodes .more").last.inner_text()
    _drag(page, ".lanes", 0.6, 0.8)
    watched.settle()
    given = parse_qs(urlsplit(page.url).query)
    chosen = datetime.fromisoformat(given["to"][0]) - datetime.fromisoformat(given["from"][0])
    is_right = timedelta(days=5) < chosen < timedelta(days=9) and "last" not in given
    yield {"act": "dragging over lanes chooses a time", "is_right": is_right}
    yield {
        "act": "the whole page has the time that was dragged over",
        "is_right": page.locator("#episodes .more").last.inner_text() != rows
        and page.locator("#f-from").is_visible()
        and page.locator("#episodes").is_visible(),
    }

    page.go_back()
    watched.settle()
    yield {"act": "Back undoes a zoom", "is_right": "last=30d" in page.url}

    watched.open("/alerts?last=7d")
    is_right = "The hatched day is not over." in page.locator("#daily").inner_text()
    yield {"act": "a chart marks the day that is not over", "is_right": is_right}

    watched.open(f"/device?last=30d&router={ROUTER}")
    marked = page.locator("#usage .legend").inner_text()
    is_right = "failover" in marked and "firmware" not in marked
    yield {"act": "a chart of a device marks what happened to it", "is_right": is_right}
    _drag(page, "#usage .u-over", 0.7, 0.9)
    watched.settle()
    given = parse_qs(urlsplit(page.url).query)
    times = [datetime.fromisoformat(given[name][0]) for name in ("from", "to")]
    is_right = {time.strftime("%H:%M:%S") for time in times} == {"00:00:00"}
    is_right = is_right and timedelta(days=4) < times[1] - times[0] < timedelta(days=9)
    yield {"act": "dragging over days chooses whole days", "is_right": is_right}

    page.locator("#usage .u-over").dblclick()
    watched.settle()
    is_right = "from=" not in page.url and page.locator("#f-last").input_value() == "7d"
    yield {"act": "a double click takes the zoom back", "is_right": is_right}


def _drag(page: Page, what: str, start: float, end: float) -> None:
    """Drag over a chart, between two shares of its width."""
    page.locator(what).first.scroll_into_view_if_needed()
    box = page.locator(what).first.bounding_box()
    assert box is not None
    y = box["y"] + box["height"] - 4
    page.mouse.move(box["x"] + start * box["width"], y)
    page.mouse.down()
    page.mouse.move(box["x"] + (start + end) / 2 * box["width"], y)
    page.mouse.move(box["x"] + end * box["width"], y)
    page.mouse.up()


def palette_works(watched: Watched) -> Iterator[dict[str, Any]]:
    """Yield what people find by a few letters."""
    page = watched.page
    watched.open("/now")
    page.keyboard.press("/")
    page.keyboard.type("V700-Boi")
    page.keyboard.press("Enter")
    page.wait_for_url("**/device?*")
    yield {"act": "the palette leads to a device", "is_right": "router=1000007" in page.url}

    watched.settle()
    page.keyboard.press("Control+k")
    page.keyboard.type("batter")
    page.locator(".palette li[aria-selected=true]", has_text="Batteries").wait_for()
    found = page.locator(".palette li").all_inner_texts()
    page.keyboard.press("ArrowDown")
    at = page.locator(".palette li[aria-selected=true]").inner_text()
    page.keyboard.press("Escape")
    kinds = {text.split("\n")[-1] for text in found}
    is_right = {"page", "reason"} <= kinds and at == found[1]
    is_right = is_right and page.locator("dialog").count() == 0
    yield {"act": "the palette has pages and reasons, and Escape closes it", "is_right": is_right}

    page.keyboard.press("Control+k")
    page.keyboard.type("place_name 3")
    page.keyboard.press("Enter")
    page.wait_for_url("**/tables*")
    watched.settle()
    shown = page.locator("#rows .body tbody tr").first.inner_text()
    is_right = "table=place_visits" in page.url and "place_name 3" in shown
    yield {"act": "the palette leads to the visits of a place", "is_right": is_right}


def keys_work(watched: Watched) -> Iterator[dict[str, Any]]:
    """Yield what people do without a mouse: the rows of a list, the help."""
    page = watched.page
    watched.open("/devices")
    page.locator("h1").click()
    second = page.locator("#list .body tbody tr").nth(1).locator("a").get_attribute("href")
    for key in ("j", "j", "j", "k", "Enter"):
        page.keyboard.press(key)
    page.wait_for_url("**/device?*")
    is_right = page.url.endswith(second or "none")
    yield {"act": "j and k choose a row, and Enter opens it", "is_right": is_right}

    watched.open("/now")
    page.evaluate("addEventListener('finding', ({ detail }) => { window.pressed = detail.key; })")
    for key in ("j", "a"):  # the first row, and what to do with it
        page.keyboard.press(key)
    is_right = page.evaluate("window.pressed") == "a"
    page.locator("#f-search").press("a")
    yield {
        "act": "a key acts on the row that has the focus, and not while one types",
        "is_right": is_right and page.locator("#f-search").input_value() == "a",
    }

    page.locator("h1").click()
    page.keyboard.press("?")
    told = page.locator("dialog.keys").inner_text()
    axe = watched.found()["axe"]
    is_right = "acknowledge" in told and axe == []
    yield {"act": "a question mark shows the keys", "is_right": is_right}

    page.goto(f"{watched.url}/alerts?kiosk=5&pages=alerts,data&last=all")
    before = page.locator("nav").is_visible()
    page.wait_for_url("**/data*", timeout=60_000)
    problems = page.locator(".problem").count()
    for _ in range(40):  # the page may be on its way to the next one
        page.keyboard.press("Escape")
        page.wait_for_timeout(500)
        if "kiosk" not in page.url:
            break
    watched.settle()
    is_right = (before, problems, page.locator("nav").is_visible()) == (False, 0, True)
    yield {"act": "a screen on a wall shows one page after another", "is_right": is_right}


def choices_work(watched: Watched) -> Iterator[dict[str, Any]]:
    """Yield what people choose about how values are shown."""
    page = watched.page
    watched.open("/batteries?last=all")
    shown = page.locator("#shown").inner_text()
    page.locator("#view > summary").click()
    page.select_option("#zone", "local")
    watched.settle()
    local = page.locator("#shown").inner_text()
    is_right = "UTC" in shown and "America/Denver" in local
    yield {"act": "times follow the chosen zone, and the page says so", "is_right": is_right}

    page.select_option("#units", "us")
    watched.settle()
    is_us = "°F" in page.locator("main").inner_text()
    yield {"act": "units follow the choice", "is_right": is_us}

    page.select_option("#theme", "dark")
    paper = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    yield {"act": "the dark theme is dark", "is_right": paper == "rgb(16, 22, 28)"}

    page.keyboard.press("Escape")
    is_shut = not page.locator("#zone").is_visible()
    where = page.evaluate("document.activeElement.textContent")
    yield {"act": "Escape closes a menu", "is_right": is_shut and where == "View"}

    watched.open("/map?day=2026-11-18")
    slider = page.locator("#map-at")
    slider.focus()
    slider.press("Home")
    page.wait_for_timeout(600)
    watched.settle()
    is_moved = "at=2026-11-18T00%3A00" in page.url
    yield {"act": "the slider of the map works by keyboard", "is_right": is_moved}


def narrow_works(narrow: Watched) -> Iterator[dict[str, Any]]:
    """Yield what people do on a phone: other pages and the filters are behind one word each."""
    page = narrow.page
    narrow.open("/failover?last=all&account=10")
    said = page.locator("#narrow").inner_text()
    before = page.locator("#f-group").is_visible()
    page.locator("#narrow").click()
    is_right = (said, before) == ("Filters (1)", False) and page.locator("#f-group").is_visible()
    yield {"act": "a narrow page has its filters behind a button", "is_right": is_right}

    page.locator("#pages").click()
    page.locator("nav a", has_text="Usage").click()
    narrow.settle()
    is_right = "/usage" in page.url and "account=10" in page.url
    yield {"act": "a narrow page has its menu behind a button", "is_right": is_right}


def columns_chosen(watched: Watched) -> Iterator[dict[str, Any]]:
    """Yield what happens to the columns of a table that is wider than its panel."""
    page = watched.page
    page.set_viewport_size({"width": 1000, "height": 900})
    watched.open("/failover?last=all")
    left = page.locator("#episodes .left").inner_text()
    page.locator("#episodes .table-tools summary").click()
    page.locator("#episodes .table-tools label", has_text="Source").locator("input").check()
    page.reload()
    watched.settle()
    heads = page.locator("#episodes thead th:visible").all_inner_texts()
    yield {
        "act": "a table leaves out the columns that do not fit, until a reader chooses",
        "is_right": left.endswith("Source.") and "Source" in heads,
    }
    page.set_viewport_size({"width": 1440, "height": 900})
    page.evaluate("localStorage.clear()")


def news_arrives(watched: Watched) -> Iterator[dict[str, Any]]:
    """Yield what an open page does when a snapshot is published."""
    page = watched.page
    watched.open("/now")
    before = page.locator("#offline").inner_text()
    yield {"act": "publish"}
    sys.stdin.readline()
    for _ in range(100):
        page.wait_for_timeout(200)
        if page.locator("#offline").inner_text() != before:
            break
    watched.settle()
    told = page.evaluate("fetch('/api/status').then(a => a.json()).then(a => a.snapshot)")
    is_new = page.locator("#offline").inner_text() != before
    yield {"act": "a new snapshot appears", "snapshot": told, "is_right": is_new}
    yield {"act": "nothing went wrong meanwhile", "is_right": True, **watched.found()}


def tables_work(watched: Watched) -> Iterator[dict[str, Any]]:
    """Yield what people do with published tables, and what a page of their own shows."""
    page = watched.page
    watched.open("/tables")
    page.select_option("#tables select", "failover_episodes")
    watched.settle()
    rows = page.locator("#rows table.rows tbody tr")
    is_chosen = "table=failover_episodes" in page.url and rows.count() > 1
    yield {"act": "a table is chosen", "is_right": is_chosen}

    page.goto(watched.url + "/tables?table=failover_episodes&sort=-duration_s")
    watched.settle()
    page.locator("#rows .browse input").fill("Boise-00007")
    page.locator("#rows .browse input").press("Enter")
    watched.settle()
    texts = rows.all_inner_texts()
    is_found = bool(texts) and all("V700-Boise-00007" in text for text in texts)
    yield {"act": "rows of the whole table are found", "is_right": is_found}

    watched.open("/mine")
    drawn = page.locator("#reboots .bars tbody tr").count()
    told = page.locator(".problem").all_inner_texts()
    is_said = len(told) == 1 and "There is no kind 'pie'" in told[0]
    yield {"act": "an own page shows its panel", "is_right": drawn > 1}
    yield {"act": "a wrong panel of an own page says so", "is_right": is_said}

    size = page.viewport_size
    page.set_viewport_size({"width": 1210, "height": 900})
    folded = page.locator("nav .menu")
    folded.locator("summary", has_text="Reboots").click()  # the page here
    is_right = folded.locator("a[aria-current]").is_visible()
    page.set_viewport_size(size)
    page.wait_for_timeout(300)
    is_right = is_right and folded.count() == 0 and page.locator("nav a").last.is_visible()
    yield {"act": "pages that do not fit into the row are behind one word", "is_right": is_right}


CHANGES = (
    ({"value": 14, "earlier": 7}, "100 % more (7 before)"),
    ({"value": 7, "earlier": 14}, "50 % less (14 before)"),
    ({"value": 7, "earlier": 7}, "as much as before (7 before)"),
    ({"value": 0, "earlier": 0}, "as before (0 before)"),
    ({"value": 5, "earlier": 0}, "0 before"),
    (
        {"value": 14, "earlier": 2, "known_days_before": 2},
        "100 % more a day (2 before in 2 known days)",
    ),
    (
        {"value": 3, "earlier": 1, "known_days": 3, "known_days_before": 1},
        "as much a day as before (1 before in 1 known day)",
    ),
    (
        {"value": 99.5, "earlier": 99.75, "is_sum": False, "unit": "%"},
        "\u22120.25 points (99.75 % before)",
    ),
    ({"value": 5, "earlier": None, "known_days_before": 0}, "nothing known before"),
    ({"value": None, "earlier": 5}, "not known"),
)
"""Figures of two weeks, and how they differ in words."""


def changes_said(watched: Watched) -> Iterator[dict[str, Any]]:
    """Yield what the page says of a figure and of the one before."""
    watched.open("/compare?last=7d")
    week = {"unit": "", "is_sum": True, "days": 7, "known_days": 7, "known_days_before": 7}
    said = watched.page.evaluate(
        "async (rows) => { const { changeOf } = await import('/static/changes.js');"
        " return rows.map((row) => changeOf(row).change); }",
        [week | row for row, _ in CHANGES],
    )
    cards = watched.page.locator("#changes .card").count()
    is_right = said == [words for _, words in CHANGES] and cards == 5
    yield {"act": "a change is said in words", "is_right": is_right, "said": said}


def main() -> None:
    """Look at every page, do what people do, and print it."""
    url, archive, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    with tarfile.open(archive) as packed:
        script = packed.extractfile("package/axe.min.js")
        assert script is not None
        axe = script.read().decode()
    path = os.environ.get("CHROMIUM", "/usr/bin/chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=[*SOFTWARE])
        watched = Watched(browser, url, width=1440, theme="light", axe=axe)
        narrow = Watched(browser, url, width=390, theme="light", axe=axe)
        flat = Watched(browser, url, width=1440, theme="light", axe=axe)
        tiled = Watched(browser, sys.argv[5], width=1440, theme="light", axe=axe)
        acts = (
            filters_work(watched),
            titles_follow(watched),
            drilled_down(watched),
            devices_found(watched),
            palette_works(watched),
            keys_work(watched),
            time_chosen(watched),
            choices_work(watched),
            columns_chosen(watched),
            narrow_works(narrow),
            map_works(watched),
            map_without_webgl(flat),
            news_arrives(watched),
            numbers(watched),
            tables_work(watched),
            changes_said(watched),
            tiles(tiled),
        )
        report = report_opens(browser, Path(sys.argv[4]).as_uri(), axe)
        for found in chain(*acts, report, looks(browser, url, axe, folder)):
            sys.stdout.write(json.dumps(found) + "\n")
            sys.stdout.flush()
        browser.close()


if __name__ == "__main__":
    main()
