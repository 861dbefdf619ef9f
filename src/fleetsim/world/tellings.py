"""The orders in which alerts tell of an outage, and what they leave out.

If a world has them, the orders take turns from router to router and from day to day; otherwise,
alerts tell of every outage as the first order has it.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from fleetsim.units import MINUTE, NEVER, SECOND, Ints


@dataclass(frozen=True, kw_only=True)
class Telling:
    """How alerts tell of an outage.

    The loss is stamped `lost_after` the outage began, and the backup connects `up_after` the
    failover, or halfway to the end if that is sooner. The failover is repeated `repeats` times. If
    `backup_fails`, it does so in each outage that is long enough.
    """

    name: str
    lost_after: int = SECOND
    up_after: int = 2 * SECOND
    repeats: int = 0
    says_back: bool = True
    says_standby: bool = True
    backup_fails: bool = False


TELLINGS: Final = (
    Telling(name="in order"),
    Telling(
        name="two backups, and only the primary's return", says_standby=False, backup_fails=True
    ),
    Telling(name="the loss after the failover", lost_after=40 * SECOND),
    Telling(name="no loss", lost_after=NEVER),
    Telling(name="the loss long before", lost_after=-15 * MINUTE),
    Telling(name="the failover again and again", repeats=3),
    Telling(name="only the backup's standby", says_back=False),
    Telling(name="no end", says_back=False, says_standby=False),
    Telling(name="the backup minutes later", up_after=6 * MINUTE),
)


def told(number: Ints, member: str) -> Ints:
    """Return a member of tellings by their position."""
    return np.array([int(getattr(telling, member)) for telling in TELLINGS])[number]
