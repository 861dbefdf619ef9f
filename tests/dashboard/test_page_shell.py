"""The HTML of a page before its scripts run: its menu, its filters and the places of its panels."""

import json
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from urllib.parse import parse_qsl, urlsplit

from fleetlake.dashboard import web_app
from fleetlake.dashboard.page_shell import login_html, page_html
from fleetlake.dashboard.panels import dashboard_pages
from fleetlake.dashboard.parameters import typed
from tests.dashboard.asking import ask

GIVEN = {"account": "7", "group": "8", "router": "9", "carrier": 'A & "B"', "last": "30d"}
FAILOVER = dashboard_pages()["failover"]


class Tags(HTMLParser):
    """The attributes of every element of a page, by the element's name."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: dict[str, list[dict[str, str | None]]] = {}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.setdefault(tag, []).append(dict(attrs))

    def named(self, tag: str, attribute: str) -> list[str | None]:
        return [one[attribute] for one in self.found[tag] if attribute in one]


def chosen_ranges(**given: str) -> dict[str | None, bool]:
    """Return the ranges that a page offers, each with whether it is chosen."""
    options = Tags(page_html(FAILOVER, given)).found["option"]
    ranges = options[next(i for i, one in enumerate(options) if one["value"] == "1h") :]
    return {one["value"]: "selected" in one for one in ranges}


def chosen_range(**given: str) -> list[str | None]:
    return [name for name, is_chosen in chosen_ranges(**given).items() if is_chosen]


def test_the_menu_keeps_the_filters_and_marks_the_page():
    links = Tags(page_html(FAILOVER, GIVEN | {"day": "2026-06-01"})).found["a"]

    pages = [one for one in links if one["href"].startswith("/") and "?" in one["href"]]
    shown = [one for one in dashboard_pages().values() if one.is_listed and not one.under]
    assert len(pages) == len(shown)
    for link in pages:
        is_list = link["href"].startswith("/devices?")  # of all devices, not of the chosen one
        wanted = {name: value for name, value in GIVEN.items() if not is_list or name != "router"}
        assert dict(parse_qsl(urlsplit(link["href"]).query)) == wanted
    assert [urlsplit(one["href"]).path for one in pages if "aria-current" in one] == ["/failover"]
    kept = Tags(page_html(FAILOVER, {"from": "2026-06-01", "to": "2026-06-02"})).found["a"]
    assert {one["href"] for one in kept} >= {"/usage?from=2026-06-01&to=2026-06-02"}


def test_the_range_is_a_week_unless_the_address_has_another_one_or_two_ends():
    assert chosen_range() == ["7d"]
    assert chosen_range(last="90d") == ["90d"]
    assert chosen_range(last="90d", to="2026-06-02") == [""]


def test_a_page_has_a_field_for_each_of_its_filters():
    tags = Tags(page_html(FAILOVER, GIVEN))

    fields = [*tags.named("select", "name"), *tags.named("input", "name")]
    assert fields == ["account", "group", "carrier", "last", "router", "from", "to"]
    assert [one["value"] for one in tags.found["input"] if one.get("name") == "router"] == ["9"]
    assert tags.named("button", "id") == ["pages", "search", "share", "narrow"]
    assert "form" not in Tags(page_html(dashboard_pages()["filters"], {})).found


def test_each_panel_tells_its_script_what_to_ask_and_how_to_draw():
    for page in dashboard_pages().values():
        shown = [panel for panel in page.panels.values() if not panel.is_for_report]
        tags = Tags(page_html(page, {}))

        assert tags.named("section", "id") == [panel.name for panel in shown]
        names = ("path", "kind", "empty", "needs", "draw")
        told = [json.loads(text or "") for text in tags.named("section", "data-panel")]
        for panel, what in zip(shown, told, strict=True):
            assert what == json.loads(json.dumps({name: getattr(panel, name) for name in names}))
        assert [one["class"] for one in tags.found["section"]] == [
            "panel wide" if panel.is_wide else "panel" for panel in shown
        ]
        exports = [one["href"] for one in tags.found["a"] if one.get("class") == "export"]
        assert exports == [
            f"{panel.path}.{form}" for panel in shown for form in ("csv", "csv", "parquet")
        ]
        assert tags.named("script", "src") == ["/static/theme.js", "/static/main.js"]


def test_the_page_that_asks_for_the_token_loads_no_panel_and_says_if_it_was_wrong():
    right, wrong = (login_html(is_wrong=is_wrong) for is_wrong in (False, True))

    assert "That is not the token." in wrong
    assert "That is not the token." not in right
    assert Tags(right).named("script", "src") == ["/static/theme.js"]
    assert Tags(right).found["form"] == [{"method": "post", "action": "/login"}]
    assert Tags(right).named("input", "name") == ["token"]


def test_the_answers_kept_for_the_next_reader_are_few_and_small(tmp_path, monkeypatch):
    monkeypatch.setattr(web_app, "KEPT_ANSWERS", 2)
    monkeypatch.setattr(web_app, "LARGEST_KEPT", 5)
    dashboard = web_app.Dashboard(tmp_path, token=None, tiles=None)

    for name, document in (("a", b"1"), ("b", b"22"), ("c", b"55555"), ("d", b"666666")):
        dashboard._keep(("snapshot", name), document)  # noqa: SLF001 - what it holds is memory

    kept = dashboard._kept  # noqa: SLF001
    assert {name: document for (_, name), document in kept.items()} == {"b": b"22", "c": b"55555"}


def test_the_page_of_one_device_is_under_the_list_of_devices_and_leads_there_without_one(app):
    menu = Tags(page_html(dashboard_pages()["device"], {"router": "9"})).found["a"]

    here = [urlsplit(one["href"] or "").path for one in menu if "aria-current" in one]
    assert here == ["/devices"]
    assert "/device" not in [urlsplit(one["href"] or "").path for one in menu]
    bare = ask(app, "/device", {"account": 7})
    assert (bare.status_code, bare.headers["location"]) == (307, "/devices?account=7")
    assert ask(app, "/device", {"router": 9}).status_code == 200


def test_each_range_of_the_choice_begins_that_long_before_the_newest_event():
    newest = datetime(2026, 11, 20, 12, tzinfo=UTC)

    spans = {
        name: newest - values["from"] if (values := typed({"last": name}, as_of=newest)) else None
        for name in chosen_ranges()
    }
    assert spans == {
        "1h": timedelta(hours=1),
        "6h": timedelta(hours=6),
        "24h": timedelta(days=1),
        "7d": timedelta(days=7),
        "30d": timedelta(days=30),
        "90d": timedelta(days=90),
        "all": None,
        "": None,
    }
