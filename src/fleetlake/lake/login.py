"""Separating the password of a shared catalog from its address.

DuckDB shows the address of each attached database to everyone who may query
(duckdb_databases), and repeats it in errors. So the password goes into a DuckDB secret, which
shows only stars.
"""

import re
from urllib.parse import parse_qsl, unquote, urlsplit

_MEMBER = re.compile(r"(\w+)\s*=\s*('(?:[^'\\]|\\.)*'|(?:[^\s'\\]|\\.)*)")
_URL = re.compile(r"postgres(?:ql)?://")


def split_password(address: str) -> tuple[str, str | None]:
    """Return a libpq address without its password, and the password, or None if it has none.

    An address without a password is returned unchanged, so libpq reads it as before.

    >>> split_password("host=db user=fleet password='s3 cret'")
    ("host='db' user='fleet'", 's3 cret')
    >>> split_password("postgresql://fleet:s3%20cret@db:5433/lake?sslmode=require")
    ("sslmode='require' host='db' port='5433' user='fleet' dbname='lake'", 's3 cret')
    >>> split_password("host=db user=fleet")
    ('host=db user=fleet', None)
    """
    members = _url_members(address) if _URL.match(address) else _text_members(address)
    password = members.pop("password", None)
    if not password:
        return address, None
    return " ".join(f"{name}={_as_value(value)}" for name, value in members.items()), password


def _text_members(address: str) -> dict[str, str]:
    found = {}
    for name, value in _MEMBER.findall(address):
        bare = value[1:-1] if value.startswith("'") else value
        found[name] = re.sub(r"\\(.)", r"\1", bare)
    return found


def _url_members(address: str) -> dict[str, str]:
    """Return the members of a URL, which may name several hosts, as libpq reads it."""
    parts = urlsplit(address)
    login, _, servers = parts.netloc.rpartition("@")
    user, _, password = login.partition(":")
    hosts, ports = zip(*(_server(server) for server in servers.split(",")), strict=True)
    found = dict(parse_qsl(parts.query.replace("+", "%2B"), keep_blank_values=True))
    given = {
        "host": ",".join(hosts),
        "port": ",".join(ports),
        "user": unquote(user),
        "password": unquote(password),
        "dbname": unquote(parts.path.removeprefix("/")),
    }
    return found | {name: value for name, value in given.items() if value.strip(",")}


def _server(server: str) -> tuple[str, str]:
    """Return host and port of a server; an IPv6 address is in brackets."""
    found = re.fullmatch(r"(?:\[([^\]]*)\]|([^:]*))(?::(\d*))?", server)
    if found is None:
        return unquote(server), ""
    return unquote(found[1] or found[2] or ""), found[3] or ""


def _as_value(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
