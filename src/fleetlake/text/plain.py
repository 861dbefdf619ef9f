"""Values as text that is safe to show in a terminal, a log or a page. Pure.

Names and messages come from the service, the file system, SQL and users. A terminal executes
escape sequences in them, and invisible or direction-changing characters make one text look
like another.
"""

from unicodedata import category

_SHOWN_AS_CODES = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Unicode categories of control, format, surrogate and line-separator characters."""

MAX_QUOTED = 200
"""Maximum number of characters that a message quotes by default."""


def plain(value: object) -> str:
    r"""Return a value as one line of text, with control characters escaped.

    >>> print(plain("a\x1b[31mb\nc\u202ed"))
    a\x1b[31mb\nc\u202ed
    """
    return _shown(str(value), kept="")


def plain_lines(value: object) -> str:
    r"""Return a message the same way, but keep line breaks and expand tabs.

    >>> print(plain_lines("one\x07\n\ttwo"))
    one\x07
        two
    """
    return _shown(str(value), kept="\n\t").expandtabs(4)


def one_line(value: object, most: int = MAX_QUOTED) -> str:
    r"""Return a text as one line of at most `most` characters, to quote in a sentence.

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
