"""Who may read, what every answer carries, and that the service's texts stay texts."""

import asyncio
import csv
import io

import pytest
from pydantic import SecretStr

from fleetlake.dashboard.dashboard_server import serve_dashboard
from fleetlake.dashboard.panels import dashboard_pages
from fleetlake.dashboard.web_app import create_dashboard
from fleetlake.errors import SettingsError, UsageError
from tests.dashboard.asking import ask, rows_of
from tests.dashboard.world import NAMES

TOKEN = "0123456789abcdef0123456789abcdef"
ANYWHERE = "http://fleet.example"
LISTED = [page.slug for page in dashboard_pages().values() if page.is_listed]


@pytest.fixture(scope="module")
def guarded(world):
    return create_dashboard(world.published, token=SecretStr(TOKEN))


@pytest.mark.parametrize(
    "host", ["http://127.0.0.1:8710", "http://localhost:1", "http://[::1]:8710"]
)
def test_this_machines_own_names_are_answered(app, host):
    assert ask(app, "/now", base=host).status_code == 200


@pytest.mark.parametrize(
    "host", ["http://fleet.example", "http://127.0.0.1.example", "http://10.0.0.1:8710"]
)
def test_any_other_name_is_refused_so_that_no_site_can_read_through_it(app, host):
    answer = ask(app, "/api/now/summary", base=host)

    assert answer.status_code == 421
    assert "device" not in answer.text


ALWAYS_SENT = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "geolocation=(), camera=(), microphone=()",
}


@pytest.mark.parametrize("path", ["/now", "/api/now/summary", "/static/main.js", "/no/such", "/x"])
def test_every_answer_allows_only_this_servers_own_files(app, path):
    headers = ask(app, path).headers

    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert {name: headers[name] for name in ALWAYS_SENT} == ALWAYS_SENT


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_but_reading_is_answered(app, method):
    assert ask(app, "/api/now/summary", method=method).status_code == 405


def test_without_the_token_a_browser_is_sent_to_log_in_and_a_program_is_refused(guarded):
    page = ask(guarded, "/now", base=ANYWHERE, headers={"accept": "text/html"})
    program = ask(guarded, "/api/now/summary", base=ANYWHERE)

    assert (page.status_code, page.headers["location"]) == (303, "/login")
    assert program.status_code == 401


@pytest.mark.parametrize(
    "headers",
    [{"authorization": f"Bearer {TOKEN}"}, {"x-fleetlake-token": TOKEN}],
    ids=["bearer", "proxy"],
)
def test_the_token_opens_in_a_bearer_or_in_the_header_of_a_proxy(guarded, headers):
    assert ask(guarded, "/api/now/summary", base=ANYWHERE, headers=headers).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": "Bearer wrong"},
        {"authorization": f"Basic {TOKEN}"},
        {"x-fleetlake-token": TOKEN[:-1]},
        {"x-fleetlake-token": ""},
        {"cookie": f"fleetlake_dashboard={TOKEN}"},
        {"cookie": "fleetlake_dashboard="},
        {"cookie": 'fleetlake_dashboard="\x01'},
    ],
)
def test_anything_but_the_token_is_refused(guarded, headers):
    assert ask(guarded, "/api/now/summary", base=ANYWHERE, headers=headers).status_code == 401


def test_logging_in_sets_a_cookie_that_opens_and_does_not_hold_the_token(guarded):
    wrong = ask(guarded, "/login", base=ANYWHERE, method="POST", content="token=wrong")
    right = ask(guarded, "/login", base=ANYWHERE, method="POST", content=f"token={TOKEN}")
    cookie = right.headers["set-cookie"]

    again = ask(guarded, "/now", base=ANYWHERE, headers={"cookie": cookie.split(";")[0]})

    assert wrong.status_code == 403
    assert "set-cookie" not in wrong.headers
    assert right.status_code == 303
    assert TOKEN not in cookie
    assert "httponly" in cookie.lower()
    assert "samesite=strict" in cookie.lower()
    assert again.status_code == 200


def test_a_log_in_without_end_is_not_read_to_its_end(guarded):
    sent = []

    async def form():
        yield b"token="
        for _ in range(1_000):
            sent.append(1_000)
            yield b"x" * 1_000

    answer = ask(guarded, "/login", base=ANYWHERE, method="POST", content=form())

    assert answer.status_code == 403
    assert sum(sent) < 10_000


def test_a_log_in_that_stops_midway_is_answered(guarded, monkeypatch):
    monkeypatch.setattr("fleetlake.dashboard.web_app.LOGIN_SECONDS", 0.01)

    async def form():
        yield b"token="
        await asyncio.Event().wait()

    answer = ask(guarded, "/login", base=ANYWHERE, method="POST", content=form())

    assert answer.status_code == 403


def test_the_log_in_page_is_all_that_a_stranger_sees(guarded):
    page = ask(guarded, "/login", base=ANYWHERE)

    assert page.status_code == 200
    assert all(slug not in page.text for slug in ("/api/", "router_id"))


@pytest.mark.parametrize("token", [None, SecretStr("short")])
def test_listening_beyond_this_machine_without_a_token_is_refused(tmp_path, token):
    with pytest.raises(SettingsError, match="FLEETLAKE_DASHBOARD_TOKEN"):
        serve_dashboard(tmp_path, port=0, address="0.0.0.0", token=token, ready=print)


def test_text_that_is_not_an_address_is_refused(tmp_path):
    with pytest.raises(UsageError, match="not an address"):
        serve_dashboard(tmp_path, port=0, address="everywhere", ready=print)


def test_hostile_names_reach_the_page_as_the_texts_they_are(app):
    rows = rows_of(ask(app, "/api/map/map"))

    assert {row["router_name"] for row in rows} >= {*NAMES}


def test_a_csv_for_spreadsheets_holds_no_formula(app):
    text = ask(app, "/api/map/map.csv").text

    cells = [cell for row in csv.reader(io.StringIO(text)) for cell in row]
    assert '\'=HYPERLINK("http://x.example";"y")' in cells
    assert not [cell for cell in cells if cell[:1] in {"=", "@", "+"}]


@pytest.mark.parametrize("slug", LISTED)
def test_a_page_escapes_what_its_address_says(app, slug):
    hostile = "\"><script>alert('x')</script>"

    page = ask(
        app, f"/{slug}", dict.fromkeys(("router", "episode", "last", "account", "from"), hostile)
    )

    assert page.status_code == 200
    assert "<script>alert" not in page.text


@pytest.mark.parametrize("path", ["/../pyproject.toml", "/static/../panels.py", "/static/%2e%2e/x"])
def test_no_file_beyond_the_static_ones_is_served(app, path):
    assert ask(app, path).status_code == 404


@pytest.mark.parametrize(
    "given",
    [
        {"router": "1 or 1=1"},
        {"router": "-1"},
        {"router": "9" * 40},
        {"from": "yesterday"},
        {"carrier": "x" * 201},
        {"zoom": "inf"},
    ],
)
def test_a_filter_that_cannot_be_read_is_refused_by_its_name(app, given):
    answer = ask(app, "/api/failover/episodes", given)

    assert answer.status_code == 400
    assert repr(next(iter(given))) in answer.json()["what"]


def test_sql_in_a_filter_is_a_value(app):
    answer = ask(app, "/api/failover/episodes", {"carrier": "x' or '1'='1", "last": "all"})

    assert rows_of(answer) == []
