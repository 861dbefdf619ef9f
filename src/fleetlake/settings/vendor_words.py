"""The vendor's words for the neutral ones of the service contract, and where they are translated.

The contract writes vendor-named parts with neutral words: headers, some alert types, the prefix of
the alternate platform's, and types of objects in activity logs. One table says what the vendor
calls them: `[vendor_words]` in `fleetlake.toml`, or the file that FLEETLAKE_VENDOR_WORDS names.

`raw` holds the words that the service sent. The staging views translate them
(`sql/macros/vendor_words.sql`), and so does the code that reads `raw` without them. If words were
translated as they arrive, `raw` would hold both kinds as soon as the table is set or corrected, and
a pushed alert would no longer equal the polled one. This way a new table needs no load: it changes
the digest of the SQL project, so the next build is a full one. A neutral word that arrives stays
as it is. What is sent to the service (headers, alert rules) is translated as it is sent.

The contract does not say which words are neutral ones, so each name of these kinds counts.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any

from fleetlake.machine.setting_files import read_toml
from fleetlake.text.tables_beside import lines_beside

KEY_HEADERS = ("X-PORTAL-API-ID", "X-PORTAL-API-KEY", "X-MGR-API-ID", "X-MGR-API-KEY")
"""The headers of the four keys, in the order of the keys."""

SIGNATURE_HEADER = "X-PORTAL-Signature"

ALTERNATE = "alt_"
"""How an alert type of the alternate platform begins."""

ROOTS = ("base_url", "v3_base_url")

ALERT_TYPES = frozenset(
    name for name in lines_beside(__file__, "alert_types.txt") if not name.startswith(ALTERNATE)
)
OBJECT_TYPES = frozenset(lines_beside(__file__, "object_types.txt"))
"""Types of actors and objects in activity logs."""


TABLE = "vendor_words"

HEADERS = (*KEY_HEADERS, SIGNATURE_HEADER)
_KNOWN = (*HEADERS, ALTERNATE, *ROOTS, *sorted(ALERT_TYPES | OBJECT_TYPES))

_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")
_WORD = re.compile(r"[0-9A-Za-z][0-9A-Za-z _.:-]{0,63}")
_RESERVED = frozenset(
    {
        *("accept", "accept-encoding", "authorization", "cache-control", "connection", "cookie"),
        *("content-length", "content-type", "host", "transfer-encoding", "user-agent"),
    }
)


@dataclass(frozen=True)
class VendorWords:
    """A translation between the contract's words and the vendor's; a word without one is itself.

    >>> words = VendorWords({"alt_": "nx_", "mgr_login_failure": "acme_login_failure"})
    >>> words.sent("alt_modem_wan_connected"), words.neutral("acme_login_failure")
    ('nx_modem_wan_connected', 'mgr_login_failure')
    """

    words: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def _neutral(self) -> dict[str, str]:
        return {theirs: ours for ours, theirs in self.words.items()}

    @property
    def alternate(self) -> str:
        """The prefix of the alternate platform's alert types."""
        return self.header(ALTERNATE)

    def header(self, name: str) -> str:
        """Return the vendor's name of a header."""
        return self.words.get(name, name)

    def sent(self, name: str) -> str:
        """Return the vendor's name of an alert type, or of a type of object."""
        if name.startswith(ALTERNATE):
            return self.alternate + self.sent(name.removeprefix(ALTERNATE))
        return self.words.get(name, name)

    def neutral(self, name: str) -> str:
        """Return the contract's name of an alert type, or of a type of object."""
        if name.startswith((self.alternate, ALTERNATE)):
            prefix = self.alternate if name.startswith(self.alternate) else ALTERNATE
            return ALTERNATE + self.neutral(name.removeprefix(prefix))
        return self._neutral.get(name, name)

    def either(self, names: Iterable[str]) -> list[str]:
        """Return names of types with the vendor's names of them: `raw` may hold both."""
        return sorted({form for name in names for form in (name, self.sent(name))})

    def types(self) -> dict[str, str]:
        """Return the contract's names of alert types and of types of objects, by the vendor's."""
        return {
            theirs: ours
            for theirs, ours in sorted(self._neutral.items())
            if ours in ALERT_TYPES | OBJECT_TYPES
        }


def read_vendor_words(value: object) -> object:
    """Return the table of a setting: the content of a file if it is a path; "" is an empty table.

    Raises: ValueError if the file cannot be read.
    """
    if not isinstance(value, str | Path):
        return value
    if not str(value):
        return {}
    try:
        found = read_toml(Path(value))
    except (OSError, ValueError) as error:
        raise ValueError(f"{value} cannot be read as a TOML file: {error}") from None
    table = found.get(TABLE, found)
    if not isinstance(table, dict):
        raise ValueError(f"{TABLE} in {value} is not a table")
    return table


def checked_vendor_words(words: Mapping[str, Any]) -> dict[str, str]:
    """Return the words that differ from the contract's. Raises: ValueError saying what is wrong."""
    for name, word in words.items():
        _require_known(name)
        _require_usable(name, word)
    _require_distinct([words.get(name, name).lower() for name in HEADERS], "headers")
    types = [words.get(name, name) for name in sorted(ALERT_TYPES)]
    _require_distinct(types, "alert types")
    _require_distinct([words.get(name, name).lower() for name in OBJECT_TYPES], "object types")
    prefix = words.get(ALTERNATE, ALTERNATE)
    if prefix[-1] not in "_-.":
        raise ValueError(f"the vendor's word for {ALTERNATE} must end in _, - or .")
    if mixed := [name for name in types if name.startswith((prefix, ALTERNATE))]:
        raise ValueError(f"the alert type {mixed[0]} begins like those of the alternate platform")
    return {name: word for name, word in words.items() if word != name}


def _require_known(name: str) -> None:
    if name in _KNOWN:
        return
    by_case = {known.lower(): known for known in _KNOWN}
    nearest = get_close_matches(name.lower(), by_case, n=1)
    meant = f"; did you mean {by_case[nearest[0]]}?" if nearest else ""
    raise ValueError(f"{name[:64]!r} is not a word of the service contract{meant}")


def _require_usable(name: str, word: object) -> None:
    if not isinstance(word, str):
        raise ValueError(f"the vendor's word for {name} is not a text")
    if name in HEADERS:
        if not _HEADER.fullmatch(word) or word.lower() in _RESERVED:
            raise ValueError(f"the vendor's word for {name} is not a usable name of a header")
    elif name not in ROOTS and not _WORD.fullmatch(word):
        raise ValueError(
            f"the vendor's word for {name} must have 1 to 64 letters, digits, spaces or _.:-"
        )


def _require_distinct(words: Iterable[str], kind: str) -> None:
    seen: set[str] = set()
    for word in words:
        if word in seen:
            raise ValueError(f"two {kind} would have the same name, {word}")
        seen.add(word)
