"""Proxy and certificate settings of the environment are used, or refused with an explanation."""

import base64
import errno
import html
import json
import os
import re
import resource
import ssl
import sys
import textwrap
import time
from itertools import product
from urllib.parse import quote

import pytest

from fleetlake import cli
from fleetlake.errors import LakeError, SettingsError
from fleetlake.lake import open_lake
from fleetlake.machine.io_faults import io_fault, not_writable
from fleetlake.service import rate_limit as ratelimit
from fleetlake.service.rate_limit import CallLimit
from fleetlake.service.route import proxies, proxy_secrets, tls_context
from fleetlake.text.redaction import starred

HTTPS = ["https://svc.example/"]
VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR")


@pytest.fixture(autouse=True)
def nothing_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "SSL_CERT_DIR"])
@pytest.mark.parametrize("place", ["missing", "other kind", "no certificate"])
def test_unreadable_certificate_authorities_are_named(tmp_path, monkeypatch, name, place):
    is_file = name == "SSL_CERT_FILE"
    path = tmp_path / "authorities"
    if place == "no certificate" and not is_file:
        path = tmp_path / "authorities" / "below a file"
    if place != "missing":
        is_folder = is_file and place == "other kind"
        authorities = tmp_path / "authorities"
        authorities.mkdir() if is_folder else authorities.write_text("x")
    monkeypatch.setenv(name, str(path))

    with pytest.raises(SettingsError, match=name) as failure:
        tls_context(HTTPS, has_proxy=False)

    assert failure.value.exit_code == 3


def test_plain_http_needs_no_authorities_unless_a_proxy_may_use_tls():
    assert tls_context(["http://127.0.0.1/"], has_proxy=False) is None
    context = tls_context(["http://svc.example/"], has_proxy=True)
    assert context is not None
    assert context.verify_mode == ssl.CERT_REQUIRED


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("socks5://127.0.0.1:1080", "socksio"),
        ("ftp://proxy.example", "not the address of a proxy"),
        ("http://", "not the address of a proxy"),
        ("http://proxy.example:port", "not the address of a proxy"),
        ("http://[proxy", "not the address of a proxy"),
    ],
)
def test_an_unusable_proxy_is_a_settings_error(monkeypatch, url, said):
    monkeypatch.setenv("HTTPS_PROXY", url)

    with pytest.raises(SettingsError, match=said) as failure:
        proxies()

    assert "HTTPS_PROXY" in str(failure.value)


def test_hosts_in_no_proxy_are_reached_directly(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "svc.example")

    assert proxies() == {}


def test_a_proxys_password_is_a_secret():
    named = ["http://user:s3cret@proxy.example:1", "proxy.example:2", "user:other@proxy.example"]

    assert proxy_secrets(named) == ["s3cret", "other"]


KEY = "Ab/c+d-9'\"\\&x77aa41"
ECHOES = {
    "plain": KEY,
    "in a word": f"xx{KEY}yy",
    "in upper case": KEY.upper(),
    "percent-encoded": quote(KEY, safe=""),
    "percent-encoded in small letters": quote(KEY, safe="").lower(),
    "percent-encoded whole": "".join(f"%{byte:02X}" for byte in KEY.encode()),
    "JSON": json.dumps(KEY)[1:-1],
    "JSON with slashes escaped": json.dumps(KEY)[1:-1].replace("/", "\\/"),
    "JSON with marks as code points": "".join(
        c if c.isalnum() else f"\\u{ord(c):04x}" for c in KEY
    ),
    "HTML": html.escape(KEY),
    "a URL's path": quote(KEY),
    "percent-encoded in part": KEY.replace("+", "%2B"),
    "percent-encoded twice": quote(quote(KEY, safe=""), safe=""),
    "HTML by numbers": "".join(c if c.isalnum() else f"&#{ord(c)};" for c in KEY),
    "HTML by hex numbers": "".join(c if c.isalnum() else f"&#x{ord(c):X};" for c in KEY),
    "HTML by names": KEY.replace("&", "&amp;").replace("/", "&sol;").replace("+", "&plus;"),
    "HTML twice": html.escape(html.escape(KEY)),
    "a language's text": "".join(c if c.isalnum() else f"\\x{ord(c):02x}" for c in KEY),
    "a shell's word": "".join(c if c.isalnum() else f"\\{c}" for c in KEY),
    "JSON in JSON": json.dumps(json.dumps(KEY)[1:-1])[1:-1],
    "hex": KEY.encode().hex(),
    "hex by bytes": KEY.encode().hex(":"),
    "two lines": f"{KEY[:7]}\r\n {KEY[7:]}",
    "base64 in two lines": "\n".join(textwrap.wrap(base64.b64encode(KEY.encode()).decode(), 12)),
}


@pytest.mark.parametrize("echo", ECHOES.values(), ids=ECHOES)
def test_a_key_is_masked_however_it_is_echoed(echo):
    assert starred(f"you sent {echo}.", [KEY]) in {
        "you sent ***.",
        "you sent xx***yy.",
        "you sent ***Q==.",  # the last base64 character does not depend on the key alone
    }


@pytest.mark.parametrize("before", ["", "u", "us", "use", "user:"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_a_key_is_masked_in_base64_at_any_offset(before, encode):
    sent = encode(f"{before}{KEY}".encode()).decode()

    shown = starred(sent, [KEY]).replace("***", "")

    assert len(shown) <= len(sent) - len(KEY)


@pytest.mark.parametrize("key", ["a" * 64, "\\" * 40, "%25" * 20, "&amp;" * 12, "key %&\\" * 8])
def test_a_text_that_nearly_contains_a_key_is_searched_quickly(key):
    near = [(key[:-1] + "!"), quote(key)[:-1], html.escape(key)[:-1], " ".join(key)[:-1], key[0]]
    texts = [(one * 65_536)[:65_536] for one in near]
    starred("", [key])
    began = time.process_time()

    for text in texts:
        starred(text, [key])

    assert time.process_time() - began < 5


def test_a_one_letter_key_is_masked_only_as_a_separate_word():
    assert starred("a bad answer: 'a', key=a", ["a"]) == "*** bad answer: '***', key=***"


def test_a_key_that_begins_with_another_is_masked_whole():
    assert starred("MGRID-9d-KEY", ["MGRID-9d", "MGRID-9d-KEY"]) == "***"


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EDQUOT])
def test_a_call_limit_on_a_full_disk_is_a_clear_error(tmp_path, monkeypatch, code):
    def refuse(*_: object) -> int:
        raise OSError(code, "it is full")

    limit = CallLimit(tmp_path, account="a", calls_per_minute=5)
    monkeypatch.setattr(ratelimit.os, "pwrite", refuse)

    with pytest.raises(LakeError, match="state folder") as failure:
        limit._reserve()  # noqa: SLF001 - without an event loop

    assert failure.value.exit_code == 7


@pytest.mark.parametrize(
    ("code", "exit_code", "said"),
    [
        (errno.EMFILE, 3, "ulimit -n"),
        (errno.ENFILE, 3, "ulimit -n"),
        (errno.EROFS, 7, "read-only"),
        (errno.ENOSPC, 7, "is full"),
        (errno.EACCES, 7, "/somewhere"),
    ],
)
def test_an_operating_system_error_ends_a_command_with_a_clear_message(
    monkeypatch, capsys, code, exit_code, said
):
    def refuse() -> None:
        raise OSError(code, os.strerror(code), "/somewhere")

    monkeypatch.setattr(cli, "app", refuse)
    monkeypatch.setattr(sys, "argv", ["fleetlake"])

    assert cli.main() == exit_code
    assert said in capsys.readouterr().err


@pytest.mark.proof
def test_opening_a_lake_with_too_few_file_descriptors_is_a_clear_error(lake_path):
    most = resource.getrlimit(resource.RLIMIT_NOFILE)
    first = os.open(os.devnull, os.O_RDONLY)
    os.close(first)
    failures: list[Exception] = []

    for more, read_only in product(range(1, 16), (True, False)):
        resource.setrlimit(resource.RLIMIT_NOFILE, (first + more, most[1]))
        try:
            with open_lake(lake_path, read_only=read_only) as lake:
                lake.rows("select count(*) from meta.watermarks")
        except (LakeError, OSError) as failure:
            failures.append(failure)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, most)

    assert failures
    for failure in failures:
        known = io_fault(failure) if isinstance(failure, OSError) else failure
        assert known is not None
        assert re.search("open more files|no more files|limit of open files", str(known))


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE])
def test_a_lack_of_file_descriptors_is_not_reported_as_an_unwritable_folder(tmp_path, code):
    error = OSError(code, os.strerror(code))

    assert "ulimit -n" in not_writable("state", tmp_path, error, setting="X").remedy


def test_an_unknown_operating_system_error_is_a_bug(monkeypatch):
    def fail() -> None:
        raise OSError(errno.EBADF, "a bug")

    monkeypatch.setattr(cli, "app", fail)

    with pytest.raises(OSError, match="a bug"):
        cli.main()
