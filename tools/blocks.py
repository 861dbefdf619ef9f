"""Blocks of Markdown pages that are rendered from the code, between `<!-- name -->` markers."""

import re
from collections.abc import Callable, Mapping

_PLACEHOLDER = re.compile(r"(`[^`]*`)|<(?!br>|https?:)(?=[A-Za-z])")
"""Code, which is kept, or the start of a `<name>` in a text, which is no HTML."""


def filled(page: str, blocks: Mapping[str, Callable[[], str]]) -> str:
    r"""Return a page with every named block as the current code gives it.

    >>> filled("<!-- a -->", {"a": lambda: "1"})
    '<!-- a -->\n1\n<!-- /a -->'
    >>> filled("<!-- a -->\n0\n<!-- /a -->", {"a": lambda: "1"})
    '<!-- a -->\n1\n<!-- /a -->'
    """
    for name, render in blocks.items():
        if f"<!-- {name} -->" not in page:
            continue
        block = f"<!-- {name} -->\n{render().strip()}\n<!-- /{name} -->"
        pattern = rf"<!-- {name} -->(?:\n.*?<!-- /{name} -->)?"
        page = re.sub(pattern, lambda _, block=block: block, page, count=1, flags=re.DOTALL)
    return page


def without_placeholders(text: str) -> str:
    """Return a text in which `<name>`, outside of code, is shown and not read as HTML.

    >>> without_placeholders("of raw_<endpoint>: `<code>`<br>")
    'of raw_&lt;endpoint>: `<code>`<br>'
    """
    return _PLACEHOLDER.sub(lambda found: found[1] or "&lt;", text)
