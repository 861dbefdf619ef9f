"""Finding known words in texts by digest, without knowing the words. Pure.

A text is read as words of letters, digits and underscores, without regard to case and to what
separates them: a MAC address has six words. A window is some words in a row.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator
from typing import Any

ERASED = "[erased]"
"""What stands in a text in place of a window that was found."""

_WORD = re.compile(r"\w+")

IsFound = Callable[[int, str], bool]
"""Says whether a window of that many words is looked for."""


def as_words(text: str) -> str:
    """Return a text as words separated by spaces.

    >>> as_words("02:00:00:3D:09:18"), as_words("Bus #12 (North)")
    ('02 00 00 3d 09 18', 'bus 12 north')
    """
    return " ".join(_WORD.findall(text.casefold()))


def count_words(words: str) -> int:
    """Return how many words a text of `as_words` has."""
    return words.count(" ") + 1


def redact(text: str, lengths: Collection[int], is_found: IsFound) -> str:
    """Return a text with each window of one of these lengths that is found replaced.

    >>> redact("Bus 12, bus 13 and BUS 12.", [2], lambda _, words: words == "bus 12")
    '[erased], bus 13 and [erased].'
    """
    found = list(_found(text, lengths, is_found))
    for start, end in reversed(found):
        text = f"{text[:start]}{ERASED}{text[end:]}"
    return text


def redact_json(text: str, lengths: Collection[int], is_found: IsFound, *, member: str = "") -> str:
    """Return a JSON text with windows replaced in its texts and numbers; others stay as written.

    The names of members stay; `member` is that of the whole text. An item of a list that is found
    as a whole is left out. What is not JSON is read as plain text.

    >>> redact_json('{"name": "Bus 12", "n": 7}', [2], lambda _, words: words == "bus 12")
    '{"name": "[erased]", "n": 7}'
    """
    try:
        document = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return redact(text, lengths, is_found)
    new = _redacted(document, lengths, is_found, member)
    return text if new == document else json.dumps(new, ensure_ascii=False)


def _redacted(value: Any, lengths: Collection[int], is_found: IsFound, member: str) -> Any:
    """Return a value of a document; a member's name counts as the word before its value.

    So `{"router": "17"}` and `{"router": {"id": 17}}` are found like the text `router 17`.
    """
    if isinstance(value, dict):
        as_named = {key: member if key == "id" and member else key for key in value}
        return {k: _redacted(inner, lengths, is_found, as_named[k]) for k, inner in value.items()}
    if isinstance(value, list):
        kept = [_redacted(inner, lengths, is_found, member) for inner in value]
        return [new for new, old in zip(kept, value, strict=True) if new != ERASED or old == new]
    if isinstance(value, bool) or value is None:
        return value
    written = str(value)
    named = f"{member} {written}"
    if any(end == len(named) for _, end in _found(named, lengths, is_found)):
        return ERASED
    return redact(written, lengths, is_found) if isinstance(value, str) else value


def _found(text: str, lengths: Collection[int], is_found: IsFound) -> Iterator[tuple[int, int]]:
    """Yield where windows are, from left to right; the longest first, and none within another."""
    words = list(_WORD.finditer(text))
    plain = [word[0].casefold() for word in words]
    ordered = sorted(lengths, reverse=True)
    first = 0
    while first < len(words):
        sizes = (n for n in ordered if first + n <= len(words))
        size = next((n for n in sizes if is_found(n, " ".join(plain[first : first + n]))), 0)
        if size:
            yield words[first].start(), words[first + size - 1].end()
        first += size or 1
