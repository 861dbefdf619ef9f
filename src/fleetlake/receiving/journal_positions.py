"""How far the lake has each journal of pushed messages."""

from fleetlake.lake.connection import Lake
from fleetlake.receiving.journal_table import Position


def read_positions(lake: Lake) -> dict[str, Position]:
    """Return how far each journal is committed, by its id."""
    found = lake.rows('select journal_id, "offset", folder from meta.journal_positions')
    return {journal_id: Position(number, place) for journal_id, number, place in found}
