"""Keeping what an address holds secret out of every text that people or logs get to see."""

import re
from urllib.parse import quote, unquote

from pydantic import SecretStr

_LOGIN = re.compile(r"^(?:[\w+.-]+://)?[^:/?@]*:(.*)@")
_MEMBER = re.compile(r"([\w.-]+)\s*=\s*('[^']*'|[^&;\s]*)")
_SECRET = re.compile(r"pass|pwd|secret|token|key|credential|sig", re.IGNORECASE)


def without_secrets(text: str, address: SecretStr, *more: str) -> str:
    """Return the text with the address, each secret part of it, and what more there is, starred.

    >>> without_secrets("no login: s3cr/t", SecretStr("postgresql://fleet:s3cr%2Ft@host/db"))
    'no login: ***'
    """
    for secret in sorted({*secrets_of(address), *more}, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


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
