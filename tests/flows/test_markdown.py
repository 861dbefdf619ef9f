"""Texts from the service in artifacts: shown literally, never interpreted."""
# ruff: noqa: PLC0415 - Prefect reads its settings when it is imported: not while tests are collected

from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from fleetlake.endpoints import ENDPOINTS
from fleetlake.text.plain import plain
from flows.markdown import as_text, table_of_text

MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])
HOSTILE = [
    "[Sign in](https://evil.example)",
    "![](https://evil.example/x.png)",
    "<img src=x onerror=alert(1)>",
    "&lt;b&gt; | a | b |",
    "a\n\n# heading\n- list\n| a |\n|---|",
    "**bold** _it_ ~~gone~~ `code` \\",
    "<https://evil.example>",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_text_is_shown_literally(text):
    assert MARKDOWN.render(f"x {as_text(text)}").count("<") == 2
    assert unescape(MARKDOWN.render(f"x {as_text(text)}")) == f"<p>x {plain(text)}</p>\n"


@given(st.text("[](){}<>|*_~`#&;!\\:/.@-+ ab1\n", min_size=1))
def test_no_text_becomes_markup(text):
    html = MARKDOWN.render(f"x {as_text(text)}.")

    assert unescape(html) == f"<p>x {plain(text)}.</p>\n"


def test_addresses_do_not_become_links():
    assert as_text("https://evil.example") == "https\\://evil.example"
    assert as_text("www.evil.example a@b.example") == "www\\.evil.example a\\@b.example"


def test_text_from_the_service_is_escaped_in_every_artifact_of_an_ingest():
    from flows.reports import ingest_summary

    numbers = dict.fromkeys(["added", "changed", "quarantined", "calls", "holes"], 0)
    row = {"endpoint": next(iter(ENDPOINTS)), "note": HOSTILE[0], "seconds": 0.1, **numbers}

    summary = "\n".join(ingest_summary("events", [row], [HOSTILE[1]]))
    [cells] = table_of_text([row])

    assert "<a" not in MARKDOWN.render(summary)
    assert "<img" not in MARKDOWN.render(summary)
    assert "<a" not in MARKDOWN.render(cells["note"])
    assert cells["added"] == 0
