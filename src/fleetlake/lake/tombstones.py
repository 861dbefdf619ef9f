"""Tombstones: what was erased, as digests, so that no load brings it back.

A digest is keyed, and only the lake holds the key, so a tombstone does not show whom it stands for.
But ids are small numbers: who can read the lake can try all of them, and find those that were
erased. There are digests of the ids, and of the words that told the thing from others: its name,
its serial number, an e-mail address.
"""

import hashlib
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from fleetlake.endpoints.columns import Column, Kind
from fleetlake.endpoints.relations import Thing
from fleetlake.lake.connection import Lake
from fleetlake.text.word_windows import as_words, count_words, redact, redact_json

_WORDS = "words"


@dataclass(frozen=True)
class Tombstones:
    """The tombstones of a lake. Without any, nothing is erased and nothing is redacted."""

    key: str = ""
    digests: frozenset[tuple[str, str]] = frozenset()
    _known: dict[tuple[str, str], bool] = field(default_factory=dict, compare=False)

    def __bool__(self) -> bool:
        """Return whether anything was erased."""
        return bool(self.digests)

    def has(self, thing: Thing, id_: object) -> bool:
        """Return whether a thing was erased."""
        return id_ is not None and self._has(thing, str(id_))

    def has_value(self, value: str | None) -> bool:
        """Return whether a value was one of an erased thing's."""
        words = as_words(value or "")
        return bool(words) and self._has_words(count_words(words), words)

    def redacted(self, text: str | None) -> str | None:
        """Return a text without the values of erased things."""
        return None if text is None else redact(text, self._lengths, self._has_words)

    def redacted_json(self, text: str | None, member: str = "") -> str | None:
        """Return a JSON text without the values of erased things; `member` is its own name."""
        if text is None:
            return None
        return redact_json(text, self._lengths, self._has_words, member=member)

    def redaction(self, column: Column) -> Callable[[str | None], str | None]:
        """Return what removes the values of erased things from a text of a column."""
        if column.kind is not Kind.JSON:
            return self.redacted
        return partial(self.redacted_json, member=column.path[-1])

    @property
    def _lengths(self) -> list[int]:
        prefix = f"{_WORDS} "
        kinds = {kind for kind, _ in self.digests if kind.startswith(prefix)}
        return [int(kind.removeprefix(prefix)) for kind in kinds]

    def _has_words(self, count: int, words: str) -> bool:
        return self._has(f"{_WORDS} {count}", words)

    def _has(self, kind: str, text: str) -> bool:
        asked = (kind, text)
        if asked not in self._known:
            self._known[asked] = (kind, digest_of(self.key, kind, text)) in self.digests
        return self._known[asked]


def digest_of(key: str, kind: str, text: str) -> str:
    """Return the keyed digest of an id or of words.

    >>> digest_of("00", "router", "7") == digest_of("00", "user", "7")
    False
    """
    message = f"{kind}\0{text}".encode()
    return hashlib.blake2b(message, key=bytes.fromhex(key), digest_size=20).hexdigest()


def read_tombstones(lake: Lake) -> Tombstones:
    """Return the tombstones of a lake."""
    digests = lake.rows("select kind, digest from meta.tombstones")
    return Tombstones(_key(lake), frozenset(digests)) if digests else Tombstones()


def add_tombstones(
    lake: Lake, things: Iterable[tuple[Thing, object]], values: Iterable[str]
) -> Tombstones:
    """Add tombstones of things and of words (as `as_words` gives them), in the open transaction.

    Returns all of them.
    """
    key = _key(lake) or _new_key(lake)
    wanted = {(str(thing), digest_of(key, thing, str(id_))) for thing, id_ in things}
    for words in values:
        kind = f"{_WORDS} {count_words(words)}"
        wanted.add((kind, digest_of(key, kind, words)))
    known = frozenset(lake.rows("select kind, digest from meta.tombstones"))
    new = sorted(wanted - known)
    if new:
        kinds, digests = zip(*new, strict=True)
        rows = pa.table({"kind": list(kinds), "digest": list(digests)})
        with lake.view("buried", rows):
            lake.execute(
                "insert into meta.tombstones by name select *, now() as erased_at from buried"
            )
    return Tombstones(key, known | wanted)


def _key(lake: Lake) -> str:
    found = lake.rows("select key from meta.tombstone_key limit 1")
    return str(found[0][0]) if found else ""


def _new_key(lake: Lake) -> str:
    key = secrets.token_hex(32)
    lake.execute("insert into meta.tombstone_key values (?)", [key])
    return key
