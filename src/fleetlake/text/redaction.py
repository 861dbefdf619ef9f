"""Removing the secrets of an address from every text that people or logs may see."""

import base64
import html
import json
import re
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from html.entities import html5
from urllib.parse import quote, unquote

from pydantic import SecretStr

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


LONG = 6
"""Minimum length at which a secret is replaced inside a word; shorter matches may be chance."""

_LOGIN = re.compile(r"^(?:[\w+.-]+://)?[^:/?@]*:(.*)@")
_MEMBER = re.compile(r"([\w.-]+)\s*=\s*('[^']*'|[^&;\s]*)")
_SECRET = re.compile(r"pass|pwd|secret|token|key|credential|sig", re.IGNORECASE)


def without_secrets(text: str, address: SecretStr, *more: str) -> str:
    """Return the text with the address, its secret parts and `more` replaced by stars.

    >>> without_secrets("no login: s3cr/t", SecretStr("postgresql://fleet:s3cr%2Ft@host/db"))
    'no login: ***'
    """
    return starred(text, {*secrets_of(address), *more})


def starred(text: str, secrets: Iterable[str]) -> str:
    """Return the text with every secret replaced by stars, however it is escaped.

    A service or proxy may echo a key as a header, a URL, JSON, HTML, hex or base64, with each
    character escaped differently, and across several lines. A short secret is replaced only as a
    whole word: a key of one letter occurs in many words.
    >>> starred("no a; key%2D7788", ["a", "key-7788"])
    'no ***; ***'
    """
    pattern = _pattern(frozenset(secret for secret in secrets if secret))
    return pattern.sub("***", text) if pattern else text


@lru_cache(maxsize=16)
def _pattern(secrets: frozenset[str]) -> re.Pattern[str] | None:
    """Return the pattern of all secrets, longest first: one may start with another."""
    ways = [way for secret in sorted(secrets, key=len, reverse=True) for way in _ways(secret)]
    return re.compile("|".join(ways), re.IGNORECASE) if ways else None


def _ways(secret: str) -> Iterator[str]:
    """Yield the expressions that match a secret. A short one matches only as a whole word."""
    for way in sorted(_escaped_forms(secret), key=len, reverse=True):
        yield re.escape(way) if len(way) >= LONG else _alone(re.escape(way))
    if len(secret) < LONG:
        yield _alone("".join(map(escape_pattern, secret)))
        return
    yield "".join(map(_after, " " + secret, secret))
    yield "[ :-]?".join(f"{byte:02x}" for byte in secret.encode())
    for way in _as_base64(secret.encode()):
        yield r"\s*+".join(map(re.escape, way))


def _alone(way: str) -> str:
    return rf"(?<!\w)(?:{way})(?!\w)"


def _after(before: str, character: str) -> str:
    """Return what matches a character of a long secret; a line break may precede it."""
    is_broken = not (before.isspace() or character.isspace())
    return (r"\s*+" if is_broken else "") + escape_pattern(character)


def _escaped_forms(secret: str) -> set[str]:
    """Return the escaped forms that are matched as a whole.

    Character by character, a secret that itself looks like an escape would be missed.
    """
    plain = {secret, quote(secret), quote(secret, safe=""), html.escape(secret)}
    return plain | {json.dumps(secret)[1:-1], json.dumps(secret)[1:-1].replace("/", "\\/")}


def _as_base64(secret: bytes) -> set[str]:
    """Return the base64 of a secret at each of the three alignments, without the shared ends."""
    found = set()
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + secret).decode().rstrip("=")
        # Digits at either end that also encode bits of a neighbour are not part of the secret.
        first = (0, 2, 3)[before]
        last = len(encoded) if (before + len(secret)) % 3 == 0 else len(encoded) - 1
        found.add(encoded[first:last])
    return found | {text.translate(_URL_SAFE) for text in found}


_URL_SAFE = str.maketrans("+/", "-_")


def secrets_of(address: SecretStr) -> set[str]:
    """Return the secret parts of an address, in every form that a driver may print.

    These are the password of `user:password@host` and every parameter with a name like a secret, in
    a query or in `name=value` form. An address with such a part is itself a secret.
    """
    whole = address.get_secret_value()
    login = _LOGIN.match(whole)
    parts = {login[1]} if login else set()
    parts |= {value.strip("'") for name, value in _MEMBER.findall(whole) if _SECRET.search(name)}
    parts = {part for part in parts if part}
    forms = {way for p in parts for way in (p, unquote(p), quote(unquote(p), safe=""))}
    return forms | {whole} if parts else set()
