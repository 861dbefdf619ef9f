"""The optional compiled reader, `fleetlake-fast`: the same pages in less CPU time.

It reads only pages whose records have declared and learned members, and refuses every page that it
is not certain to read as the Python readers do: odd values, repeated members, invalid UTF-8, deep
or large records, JSON that needs repair. The Python readers then read that page, so they alone
decide what is stored. Its sources are in `src/fleetlake_fast`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING

import pyarrow as pa

from fleetlake.decoding.learned_members import LearnedMembers
from fleetlake.decoding.structs import constant_at
from fleetlake.decoding.values import link_query
from fleetlake.endpoints.columns import Kind
from fleetlake.endpoints.model import Api, Endpoint, Mode

if TYPE_CHECKING:
    from fleetlake_fast import Reader

KINDS = (
    Kind.ID,
    Kind.INTEGER,
    Kind.RELATION,
    Kind.REAL,
    Kind.FLAG,
    Kind.TEXT,
    Kind.TIME,
    Kind.TIMEUUID,
    Kind.JSON,
)
"""The kinds in the order in which the compiled reader numbers them."""

_is_wanted = False


@dataclass(frozen=True, slots=True)
class NativePage:
    """A page as the compiled reader gives it; `next` is the query of the link to the next page."""

    rows: pa.RecordBatch
    count: int
    limit: int
    next: Mapping[str, str] | None


def use_native_reader(wanted: bool) -> None:
    """Let this process read pages with the compiled reader, if it is installed, or not at all."""
    global _is_wanted  # noqa: PLW0603 - a process reads pages in one way
    _is_wanted = wanted


def native_page(
    endpoint: Endpoint, learned: LearnedMembers, schema: pa.Schema, body: bytes
) -> NativePage | None:
    """Return the page in a body, or None if a Python reader must read it.

    The caller has already refused a body that may hold a NUL or very many records.
    """
    reader = compiled_reader(endpoint, learned) if _is_wanted else None
    if reader is None or (found := reader.read(body)) is None:
        return None
    array, address, count, limit, link = found
    try:
        query = link_query(link)
    except ValueError:
        return None
    rows = pa.RecordBatch._import_from_c(address, schema)  # noqa: SLF001 - see below
    # The public way imports the schema again for each page. `array` owns what `address` points to
    # until the import has taken it over.
    del array
    return NativePage(rows, count, limit if endpoint.api is Api.V2 else endpoint.page_size, query)


def native_reader_state(*, wanted: bool) -> str | None:
    """Return the version of the installed compiled reader, and why it is not used, if so."""
    found = installed_version()
    if found is None:
        return None
    if found != version("fleetlake"):
        return f"{found} (not used: it belongs to another release; install it again)"
    return found if wanted else f"{found} (not used: FLEETLAKE_NATIVE_READER is false)"


@cache
def compiled_reader(endpoint: Endpoint, learned: LearnedMembers) -> "Reader | None":
    """Return the compiled reader of an endpoint, or None if it cannot be used."""
    has_json = bool(learned.paths) or any(c.kind is Kind.JSON for c in endpoint.columns)
    # Where versions of a record are compared, JSON must have one spelling: only Python writes it.
    is_readable = endpoint.is_requested and (endpoint.mode is Mode.APPEND or not has_json)
    if not is_readable or installed_version() != version("fleetlake"):
        return None
    from fleetlake_fast import Reader  # noqa: PLC0415 - it is optional

    columns = tuple(
        (column.path, KINDS.index(column.kind), column.name in endpoint.required)
        for column in endpoint.columns
    )
    objects = {c.path[:depth] for c in endpoint.columns for depth in range(len(c.path))}
    constants = tuple(
        (*path, name) for path in sorted(objects) for name in constant_at(path, endpoint.api)
    )
    try:
        return Reader(endpoint.api is Api.V2, columns, constants, learned.paths)
    except ValueError:  # more members than it can track
        return None


@cache
def installed_version() -> str | None:
    """Return the version of the installed compiled reader, or None."""
    try:
        from fleetlake_fast import VERSION  # noqa: PLC0415 - it is optional
    except ImportError:
        return None
    return VERSION
