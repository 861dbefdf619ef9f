"""Keeping what an address holds secret out of every text that people or logs get to see."""

import base64
import html
import json
import re
from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import quote, unquote

from pydantic import SecretStr

LONG = 6
"""Characters from which on a secret is starred inside words too: no word holds it by chance."""

_LOGIN = re.compile(r"^(?:[\w+.-]+://)?[^:/?@]*:(.*)@")
_MEMBER = re.compile(r"([\w.-]+)\s*=\s*('[^']*'|[^&;\s]*)")
_SECRET = re.compile(r"pass|pwd|secret|token|key|credential|sig", re.IGNORECASE)


def without_secrets(text: str, address: SecretStr, *more: str) -> str:
    """Return the text with the address, each secret part of it, and what more there is, starred.

    >>> without_secrets("no login: s3cr/t", SecretStr("postgresql://fleet:s3cr%2Ft@host/db"))
    'no login: ***'
    """
    return starred(text, {*secrets_of(address), *more})


def starred(text: str, secrets: Iterable[str]) -> str:
    """Return the text with every secret in it starred, however it is spelled there.

    A service or a proxy may echo a key as a header, a URL, JSON, HTML or base64 spells it. One
    that is short is starred only where it stands by itself: a key of one letter is in each word.

    >>> starred("no a; key%2D7788", ["a", "key-7788"])
    'no ***; ***'
    """
    pattern = _pattern(frozenset(secret for secret in secrets if secret))
    return pattern.sub("***", text) if pattern else text


@lru_cache(maxsize=16)
def _pattern(secrets: frozenset[str]) -> re.Pattern[str] | None:
    """Return what finds the secrets, the longest spelling first: one may begin with another."""
    found = {spelling for secret in secrets for spelling in _spellings(secret)}
    ways = [
        re.escape(way) if len(way) >= LONG else rf"(?<!\w){re.escape(way)}(?!\w)"
        for way in sorted(found, key=len, reverse=True)
    ]
    return re.compile("|".join(ways), re.IGNORECASE) if ways else None


def _spellings(secret: str) -> set[str]:
    """Return the ways to write a secret that a text may hold."""
    whole = "".join(f"%{byte:02x}" for byte in secret.encode())
    marks = "".join(c if c.isalnum() else f"%{ord(c):02x}" for c in secret)
    escaped = "".join(c if c.isalnum() else f"\\u{ord(c):04x}" for c in secret)
    plain = {secret, quote(secret, safe=""), whole, marks, escaped, html.escape(secret)}
    plain |= {json.dumps(secret)[1:-1], json.dumps(secret)[1:-1].replace("/", "\\/")}
    return plain | (_as_base64(secret.encode()) if len(secret) >= LONG else set())


def _as_base64(secret: bytes) -> set[str]:
    """Return what base64 makes of a secret wherever in a text it begins, but for its ends."""
    found = set()
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + secret).decode().rstrip("=")
        # Digits that hold bits of a neighbour too are not the secret's alone.
        first = (0, 2, 3)[before]
        last = len(encoded) if (before + len(secret)) % 3 == 0 else len(encoded) - 1
        found.add(encoded[first:last])
    return found | {text.translate(_URL_SAFE) for text in found}


_URL_SAFE = str.maketrans("+/", "-_")


def secrets_of(address: SecretStr) -> set[str]:
    """Return what nobody else may see of an address, however a driver may spell it.

    That is the password of `user:password@host`, and every member that is named like a secret,
    in a query or in `name=value` form. An address with such a part is itself a secret.
    """
    whole = address.get_secret_value()
    login = _LOGIN.match(whole)
    parts = {login[1]} if login else set()
    parts |= {value.strip("'") for name, value in _MEMBER.findall(whole) if _SECRET.search(name)}
    parts = {part for part in parts if part}
    spelled = {way for p in parts for way in (p, unquote(p), quote(unquote(p), safe=""))}
    return spelled | {whole} if parts else set()
