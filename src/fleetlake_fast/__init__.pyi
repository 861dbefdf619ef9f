"""The compiled reader, as `fleetlake.decoding.native` calls it."""

from typing import final

VERSION: str
"""The release that it belongs to."""

@final
class Reader:
    """Reads the pages of one endpoint.

    `columns` has for each column its path, the number of its kind and whether a null is refused, in
    the order of the schema; the column of `learned` members comes last. `constants` are members
    whose text is ignored. Raises: ValueError if there are more members than it can track.
    """

    def __new__(
        cls,
        is_v2: bool,
        columns: tuple[tuple[tuple[str, ...], int, bool], ...],
        constants: tuple[tuple[str, ...], ...],
        learned: tuple[tuple[str, ...], ...],
    ) -> Reader: ...
    def read(self, body: bytes) -> tuple[object, int, int, int, str | None] | None:
        """Return the page, or None if the Python readers must read it.

        The page is a tuple: the owner of an Arrow array, the array's address, the number of
        records, the limit (0 in v3) and the link to the next page.
        """
