"""What each table and column means: of marts from the dbt project, of raw tables from endpoints."""

from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.model import Endpoint
from fleetlake.marts.catalogue import mart_meanings

Description = tuple[str, dict[str, str]]
"""What a table holds, and what each of its columns means."""


def described_in(schema: str, table: str) -> Description:
    """Return the description of a table; an empty one for a table that has none."""
    if schema == "marts":
        return mart_meanings(table)
    if schema == "raw" and table in ENDPOINTS:
        return _of_endpoint(ENDPOINTS[table])
    return "", {}


def _of_endpoint(endpoint: Endpoint) -> Description:
    units = {
        column.name: f" Unit: {column.unit}." if column.unit else "" for column in endpoint.columns
    }
    return endpoint.about, {c.name: f"{c.meaning}{units[c.name]}" for c in endpoint.columns}
