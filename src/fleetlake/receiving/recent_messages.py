"""Which messages were stored shortly before.

A sender that got no answer in time sends a message again, byte for byte. It is in the journal
already, so it need not be written twice. A message that this does not recognise, after a restart
for example, does no harm either: the lake keeps one row per alert.
"""

from collections import OrderedDict

REMEMBERED = 16_384


class RecentMessages:
    """The signatures of the messages stored last; a few megabytes at most."""

    def __init__(self, size: int = REMEMBERED) -> None:
        self._size = size
        self._signatures: OrderedDict[bytes, None] = OrderedDict()

    def has(self, signature: bytes) -> bool:
        """Return whether a message with this valid signature was stored."""
        return signature in self._signatures

    def add(self, signature: bytes) -> None:
        """Remember that a message is on disk."""
        self._signatures[signature] = None
        if len(self._signatures) > self._size:
            self._signatures.popitem(last=False)
