"""Visibility: a record appears up to a minute after its creation (observed on the service)."""

import numpy as np

from fleetsim.blocks import Block
from fleetsim.units import MINUTE, SECOND, Ints, Words
from fleetsim.view import View

LONGEST_LAG = MINUTE
_LATE_ONE_IN = 5


def lag(tail: Words) -> Ints:
    """Return the delay after which each record is visible: above 0, at most 60 s."""
    share = (tail >> np.uint64(8)) % np.uint64(LONGEST_LAG // SECOND * 1000)
    return (share.astype(np.int64) + 1) * (SECOND // 1000)


def visible(view: View, block: Block) -> Block:
    """Return the rows that a caller can see now."""
    longest = LONGEST_LAG + view.scenario.late_by
    if not view.settled or len(block) == 0 or block["time"][-1] < view.now - longest:
        return block
    wait = lag(block["tail"])
    if view.scenario.late_by:
        late = (block["tail"] >> np.uint64(32)) % np.uint64(_LATE_ONE_IN) == 0
        wait = np.where(late, wait + view.scenario.late_by, wait)
    return block.take(np.flatnonzero(block["time"] + wait <= view.now))
