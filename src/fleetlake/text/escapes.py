"""Regular expressions that match a character in every escaped form. Pure."""

import json
import re
from functools import cache
from html.entities import html5

_BYTE = 256
"""From this code on, a character takes more than one byte in every byte-wise escape."""


@cache
def escape_pattern(character: str) -> str:
    r"""Return the pattern of a character: plain, or escaped for URLs, HTML, JSON and languages.

    An escape may itself be escaped. The group is atomic, so a text that nearly matches takes no
    longer to search.

    >>> re.sub(escape_pattern("+"), "-", r"+ %2b %252b &#43; &#x2b; &amp;plus; \\x2b \\u002b \\+")
    '- - - - - - - - -'
    """
    if character.isspace():
        itself = [r"\+", r"\s+"]
    elif character == "\\":
        itself = [r"\\{1,4}"]
    else:
        itself = [r"\\{0,4}" + re.escape(character)]
    ways = "|".join([*_escapes(character), *itself])
    return f"(?>{ways})"


def _escapes(character: str) -> list[str]:
    """Return the escapes of a character, those that start with another one first."""
    code, utf8 = ord(character), character.encode("utf-8", "surrogatepass")
    utf16 = character.encode("utf-16-be", "surrogatepass").hex()
    units = [utf16[at : at + 4] for at in range(0, len(utf16), 4)]
    names = {name.rstrip(";") for name, text in html5.items() if text == character}
    entities = [rf"#0{{0,8}}{code}", rf"#x0{{0,8}}{code:x}", *sorted(names)]
    escapes = [
        "".join(f"%(?:25){{0,4}}{byte:02x}" for byte in utf8),
        "".join(rf"\\{{1,8}}x{byte:02x}" for byte in utf8),
        "".join(rf"\\{{1,8}}u{unit}" for unit in units),
        rf"\\{{1,8}}u\{{0{{0,8}}{code:x}\}}",
        rf"\\{{1,8}}U{code:08x}",
        rf"&(?:amp;){{0,4}}(?:{'|'.join(entities)});?",
    ]
    if code < _BYTE:
        escapes += [rf"\\{{1,8}}x{code:02x}", rf"\\{{1,8}}{code:03o}"]
    return [*escapes, re.escape(json.dumps(character)[1:-1])]
