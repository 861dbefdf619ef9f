"""What was read of a list: its rows, compressed, and what is asked about them before the commit."""

import pyarrow as pa

from fleetlake.decoding.arrow import Page, schema_of
from fleetlake.decoding.records import RejectedRecord
from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.model import Endpoint
from fleetlake.lake.packed_rows import PackedRows


class ListPages:
    """The pages of one list, added as they arrive.

    `is_paged` is true if a walk had more than one page.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        fan_outs = [other.fan_out for other in ENDPOINTS.values() if other.fan_out]
        moved = [f.moved for f in fan_outs if f.moved and f.moved.endpoint == endpoint.name]
        self._id = moved[0].id if moved else None
        self.rows = PackedRows(schema_of(endpoint))
        self.rejects: list[RejectedRecord] = []
        self.is_paged = False

    def add(self, page: Page) -> None:
        """Add a page."""
        self.rows.add(page.rows)
        self.rejects += page.rejects
        self.is_paged = self.is_paged or not page.is_last

    @property
    def listed(self) -> pa.ChunkedArray | None:
        """The ids of a bulk list, which says which ids of a fan-out changed; otherwise None."""
        return None if self._id is None else self.rows.columns([self._id]).column(0)
