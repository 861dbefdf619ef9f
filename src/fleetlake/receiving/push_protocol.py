"""A connection to the receiver: senders from allowed networks keep their connections."""

from collections.abc import Sequence
from functools import cached_property
from ipaddress import IPv4Network, IPv6Network

from fleetlake.receiving.intake import is_within
from fleetlake.serving.bounded_protocol import BoundedProtocol

MAX_STRANGERS = 64
"""Maximum of the connections that do not come from an allowed network."""


class PushProtocol(BoundedProtocol):
    """A connection to the receiver.

    `sources` are the allowed networks, as far as the address of a connection tells: none of them
    are given if all networks are allowed, or if all connections come from a proxy.
    """

    max_strangers = MAX_STRANGERS
    sources: Sequence[IPv4Network | IPv6Network] = ()

    @cached_property
    def is_stranger(self) -> bool:
        """Return whether the connection does not come from an allowed network."""
        is_allowed = self.client is not None and is_within(self.client[0], self.sources)
        return bool(self.sources) and not is_allowed

    def rivals(self) -> tuple[list[BoundedProtocol], int]:
        """Return the connections that share a maximum: strangers do not take those of others."""
        everyone, maximum = super().rivals()
        if not self.is_stranger:
            return everyone, maximum
        strangers = [one for one in everyone if getattr(one, "is_stranger", False)]
        return strangers, self.max_strangers
