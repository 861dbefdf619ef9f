"""Values as text that a terminal, a log or a page shows and never obeys. Pure.

Names and messages come from the service, the file system, SQL and users. A terminal acts on
escape sequences in them, and characters that are invisible or reverse the reading direction make
a text look like another one.
"""

from unicodedata import category

_SHOWN_AS_CODES = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Unicode's categories of control, format, surrogate and line separating characters."""

MOST_QUOTED = 200
"""Characters of a text of others that a message quotes, where nothing else is said."""


def plain(value: object) -> str:
    r"""Return a value as one line of text, with control characters as codes.

    >>> print(plain("a\x1b[31mb\nc\u202ed"))
    a\x1b[31mb\nc\u202ed
    """
    return _shown(str(value), kept="")


def plain_lines(value: object) -> str:
    r"""Return a message likewise, which may have several lines and tabs.

    >>> print(plain_lines("one\x07\n\ttwo"))
    one\x07
        two
    """
    return _shown(str(value), kept="\n\t").expandtabs(4)


def one_line(value: object, most: int = MOST_QUOTED) -> str:
    r"""Return what to quote of a text within a sentence: one line of so many characters at most.

    >>> one_line("gone.\r\nWhat to do: nothing", most=12)
    'gone. What …'
    """
    text = plain(" ".join(str(value).split()))
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _shown(text: str, *, kept: str) -> str:
    if text.isprintable():
        return text
    return "".join(
        char if char in kept or category(char) not in _SHOWN_AS_CODES else _code(char)
        for char in text
    )


def _code(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
