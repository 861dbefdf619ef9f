"""The vendor's words: one table for what the service contract writes with neutral words."""

import asyncio
import json
from pathlib import Path

import httpx
import pytest

from fleetlake.endpoints.relations import Thing, thing_of_type, types_of
from fleetlake.errors import SettingsError
from fleetlake.monitoring.doctor import run_checks
from fleetlake.receiving.push_secrets import PushSecrets, misnamed_signature
from fleetlake.settings import Settings, VendorWords, load_settings
from fleetlake.settings.vendor_words import (
    HEADERS,
    KEY_HEADERS,
)
from fleetsim.activity_types import OBJECT_TYPES as CONTRACT_OBJECT_TYPES
from fleetsim.alert_types import CONTRACT_ALERT_TYPES
from fleetsim.app import create_app
from fleetsim.options import SimulatorOptions
from fleetsim.wire_words import read_vendor_words
from tests.support.pushing import BODY, Running, answers, running, settings, signature
from tests.support.sim import NOW

WORDS = {
    "X-PORTAL-API-ID": "X-ACME-API-ID",
    "X-PORTAL-API-KEY": "X-ACME-API-KEY",
    "X-MGR-API-ID": "X-NX-API-ID",
    "X-MGR-API-KEY": "X-NX-API-KEY",
    "X-PORTAL-Signature": "X-ACME-Signature",
    "alt_": "nx_",
    "mgr_login_failure": "acme_login_failure",
    "rome account": "acme account",
}


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read settings again, from a folder without a settings file."""
    monkeypatch.chdir(tmp_path)


def as_toml(words: dict[str, str]) -> str:
    """Return words as lines of a TOML file."""
    return "".join(f"{json.dumps(name)} = {json.dumps(word)}\n" for name, word in words.items())


def refusal(table: str) -> str:
    Path("fleetlake.toml").write_text(f"[vendor_words]\n{table}")
    load_settings.cache_clear()
    with pytest.raises(SettingsError) as failure:
        load_settings()
    return str(failure.value)


def test_words_come_from_the_settings_file():
    Path("fleetlake.toml").write_text("[vendor_words]\n" + as_toml(WORDS))

    assert load_settings().vendor_words == WORDS


@pytest.mark.parametrize("head", ["", "[vendor_words]\n"])
def test_words_come_from_the_file_that_the_setting_names(monkeypatch, head):
    Path("words.toml").write_text(head + as_toml(WORDS))
    monkeypatch.setenv("FLEETLAKE_VENDOR_WORDS", "words.toml")

    assert load_settings().vendor_words == WORDS


def test_an_empty_setting_means_the_words_of_the_contract(monkeypatch):
    Path("fleetlake.toml").write_text("[vendor_words]\n" + as_toml(WORDS))
    monkeypatch.setenv("FLEETLAKE_VENDOR_WORDS", "")

    assert load_settings().vendor_words == {}


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ("alt = 'nx_'", "did you mean alt_?"),
        ("X-PORTAL-Sig = 'X-A'", "did you mean X-PORTAL-Signature?"),
        ("x-portal-signature = 'X-A'", "did you mean X-PORTAL-Signature?"),
        ("mgr_login = 'a'", "did you mean mgr_login_failure?"),
        ("no_such_word_at_all = 'a'", "is not a word of the service contract"),
        ("X-PORTAL-Signature = 'X-MGR-API-KEY'", "two headers would have the same name"),
        ("X-PORTAL-Signature = 'x-mgr-api-key'", "two headers would have the same name"),
        ("mgr_login_failure = 'login_success'", "two alert types would have the same name"),
        ("'rome account' = 'SSO account'", "two object types would have the same name"),
        ("alt_ = 'modem_'", "begins like those of the alternate platform"),
        ("config_change = 'alt_change'", "begins like those of the alternate platform"),
        ("alt_ = 'nx'", "must end in"),
        ("alt_ = ''", "1 to 64"),
        ("X-PORTAL-Signature = 'X A'", "not a usable name of a header"),
        ("X-PORTAL-Signature = 'Host'", "not a usable name of a header"),
        ("X-PORTAL-Signature = 3", "not a text"),
        (f"X-PORTAL-Signature = '{'X' * 65}'", "not a usable name of a header"),
        ('mgr_login_failure = "a\'b"', "1 to 64"),
        ("base_url = 'ftp://x'", "http or https"),
    ],
)
def test_a_word_that_cannot_be_used_is_refused_with_the_reason(table, reason):
    reported = refusal(table)

    assert reason in reported
    assert "FLEETLAKE_" in reported


@pytest.mark.parametrize("content", [b"\xff", b"alt_ = ", b"x" * 70_000, b"vendor_words = 3"])
def test_a_file_of_words_that_cannot_be_read_is_a_clear_error(monkeypatch, content):
    Path("words.toml").write_bytes(content)
    monkeypatch.setenv("FLEETLAKE_VENDOR_WORDS", "words.toml")

    with pytest.raises(SettingsError, match=r"words\.toml|vendor_words"):
        load_settings()


def test_a_file_of_words_that_is_missing_is_a_clear_error(monkeypatch):
    monkeypatch.setenv("FLEETLAKE_VENDOR_WORDS", "words.toml")

    with pytest.raises(SettingsError, match=r"words\.toml"):
        load_settings()


def test_the_table_has_the_services_addresses_unless_they_are_set(monkeypatch):
    Path("fleetlake.toml").write_text(
        "[vendor_words]\nbase_url = 'https://a.example/api/v2/'\n"
        "v3_base_url = 'https://a.example/api/v3'\n"
    )
    monkeypatch.setenv("FLEETLAKE_V3_BASE_URL", "https://b.example/api/v3")

    loaded = load_settings()

    assert loaded.base_url == "https://a.example/api/v2/"
    assert loaded.v3_base_url == "https://b.example/api/v3"


def test_the_keys_are_sent_in_the_vendors_headers():
    chosen = Settings(
        vendor_words=WORDS,
        portal_api_id="a",
        portal_api_key="b",
        mgr_api_id="c",
        mgr_api_key="d",
    )

    assert list(chosen.keys()) == [WORDS[name] for name in KEY_HEADERS]


def test_the_older_setting_still_names_the_key_headers_and_says_that_it_is_deprecated(
    monkeypatch, caplog
):
    monkeypatch.setenv("FLEETLAKE_HEADER_NAMES", "X-A, X-B,X-C,X-D")

    words = load_settings().words

    assert [words.header(name) for name in HEADERS] == [
        "X-A", "X-B", "X-C", "X-D", "X-PORTAL-Signature",
    ]  # fmt: skip
    assert "FLEETLAKE_HEADER_NAMES is deprecated" in caplog.text


@pytest.mark.parametrize("names", ["X-A,X-B,X-C,X-C", "X-A,X-B,X-C,X D", "X-A,X-B,X-C,X-E"])
def test_the_older_setting_is_refused_if_it_is_wrong_or_contradicts_the_table(monkeypatch, names):
    Path("fleetlake.toml").write_text("[vendor_words]\nX-MGR-API-KEY = 'X-D'\n")
    monkeypatch.setenv("FLEETLAKE_HEADER_NAMES", names)

    with pytest.raises(SettingsError, match="FLEETLAKE_HEADER_NAMES"):
        load_settings()


def test_each_type_of_the_contract_is_itself_again_after_both_translations():
    words = VendorWords(WORDS)
    types = [*CONTRACT_ALERT_TYPES, *CONTRACT_OBJECT_TYPES]

    assert [words.neutral(words.sent(name)) for name in types] == types
    assert [words.neutral(name) for name in types] == types


def test_an_object_that_the_vendor_names_otherwise_is_found_when_its_account_is_erased():
    Path("fleetlake.toml").write_text("[vendor_words]\n" + as_toml(WORDS))
    load_settings.cache_clear()

    assert thing_of_type("acme account") is Thing.ACCOUNT
    assert {"acme account", "rome account"} <= {*types_of(Thing.ACCOUNT)}


def served(words: dict[str, str], headers: dict[str, str], path: str) -> httpx.Response:
    """Return the answer of a simulated service with these words."""
    app = create_app(SimulatorOptions(routers=3, days=2, now=NOW, speed=0, vendor_words=words))

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.get(f"/api/v2/{path}", headers=headers)

    return asyncio.run(ask())


def key_headers(words: dict[str, str]) -> dict[str, str]:
    keys = ("portal-id", "portal-key", "admin-id", "admin-key")
    return {words.get(n, n): key for n, key in zip(KEY_HEADERS, keys, strict=True)}


def test_the_simulator_takes_keys_in_the_vendors_headers_only():
    assert served(WORDS, key_headers(WORDS), "accounts/").status_code == 200
    assert served(WORDS, key_headers({}), "accounts/").status_code == 401
    assert served({}, key_headers(WORDS), "accounts/").status_code == 401


def test_the_simulator_serves_and_filters_by_the_vendors_types():
    path = "alerts/?limit=500&type__in=acme_login_failure,connection_state"
    answer = served(WORDS, key_headers(WORDS), path)
    plain = served({}, key_headers({}), path.replace("acme_login_failure", "mgr_login_failure"))

    assert int(answer.headers["content-length"]) == len(answer.content)
    types = [alert["type"] for alert in answer.json()["data"]]
    assert {*types} == {"acme_login_failure", "connection_state"}
    assert [t.replace("acme", "mgr") for t in types] == [
        alert["type"] for alert in plain.json()["data"]
    ]


def test_the_simulator_reads_the_file_that_the_command_reads(monkeypatch):
    monkeypatch.setenv("FLEETLAKE_VENDOR_WORDS", "words.toml")
    for head in ("", "[vendor_words]\n"):
        Path("words.toml").write_text(head + as_toml(WORDS))
        load_settings.cache_clear()

        assert read_vendor_words(Path("words.toml")) == load_settings().vendor_words


MISNAMED = {"X-ACME-Signature": signature(BODY)}


def refused(folder: Path, headers: dict[str, str]) -> tuple[int, str]:
    """Return the answer to a push to a receiver that expects the contract's header."""
    answer = answers(folder, lambda receiver: receiver.send(content=BODY, headers=headers))
    return answer.status_code, answer.text


def test_a_push_signed_in_another_header_is_refused_and_reported_with_both_names(tmp_path, caplog):
    assert refused(tmp_path, MISNAMED) == (403, "one X-PORTAL-Signature is needed\n")

    [note] = caplog.messages
    assert all(word in note for word in ("x-acme-signature", "X-PORTAL-Signature", "VENDOR_WORDS"))
    found = misnamed_signature(settings(tmp_path))
    assert found
    assert (found.expected, found.found) == ("X-PORTAL-Signature", "x-acme-signature")
    [check] = [c for c in run_checks(settings(tmp_path, base_url=None)) if c.name == "pushes"]
    assert check.error
    assert 'X-PORTAL-Signature = "x-acme-signature"' in check.error.remedy


def test_the_report_ends_once_the_receiver_expects_the_header(tmp_path):
    refused(tmp_path, MISNAMED)
    words = {"X-PORTAL-Signature": "X-ACME-Signature"}

    assert misnamed_signature(settings(tmp_path, vendor_words=words)) is None


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-ACME-Signature": "0" * 64},  # no secret gives it
        {"X-ACME-Signature": signature(BODY, "guess")},
        {"X-ACME-Signature": "A" * 9000},
        {"X" * 65: signature(BODY)},
    ],
)
def test_a_push_of_a_stranger_leaves_no_report(tmp_path, caplog, headers):
    assert refused(tmp_path, headers)[0] == 403

    assert caplog.messages == []
    assert misnamed_signature(settings(tmp_path)) is None


def test_refusals_without_a_signature_are_counted_by_themselves(tmp_path):
    async def push(receiver: Running) -> str:
        await receiver.send(content=BODY, headers=MISNAMED)
        await receiver.send(content=BODY)
        await receiver.send(content=BODY, headers={"X-PORTAL-Signature": "0" * 64})
        return (await receiver.send("GET", "/metrics", sender=("127.0.0.1", 1))).text

    text = answers(tmp_path, push)

    assert 'fleetlake_push_refusals_total{reason="unsigned"} 2' in text
    assert 'fleetlake_push_refusals_total{reason="signature"} 1' in text


def test_a_receiver_with_the_vendors_header_takes_it_and_no_other(tmp_path):
    chosen = settings(tmp_path, vendor_words={"X-PORTAL-Signature": "X-ACME-Signature"})

    async def push(headers: dict[str, str]) -> int:
        async with running(tmp_path, secrets=PushSecrets(chosen)) as receiver:
            return (await receiver.send(content=BODY, headers=headers)).status_code

    assert asyncio.run(push(MISNAMED)) == 200
    assert asyncio.run(push({"X-PORTAL-Signature": signature(BODY)})) == 403
