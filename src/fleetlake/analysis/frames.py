"""The rows of a table or of a query, as a Polars frame, an Arrow table or a pandas frame.

Each of these packages is imported when it is first needed: to import them takes longer than to open
a lake.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, overload

import duckdb

from fleetlake.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa
    from pandas import DataFrame as PandasFrame
    from polars import DataFrame, LazyFrame

    from fleetlake.monitoring.proof import AnswerProof

OpenRelation = Callable[[], AbstractContextManager[duckdb.DuckDBPyRelation]]
"""Opens what is read, on a connection of its own, and closes it."""

ROWS_AT_ONCE = 100_000
FEW_AT_ONCE = 100


class Selection:
    """What a query of the lake returns; nothing is read before it is asked for."""

    def __init__(self, relation: OpenRelation, prove: "Callable[[], AnswerProof]") -> None:
        self._relation, self._prove = relation, prove

    @overload
    def pl(self, *, lazy: Literal[False] = False) -> "DataFrame": ...
    @overload
    def pl(self, *, lazy: Literal[True]) -> "LazyFrame": ...
    def pl(self, *, lazy: bool = False) -> "DataFrame | LazyFrame":
        """Return the rows as a Polars frame, or as a lazy one; times are in UTC.

        Each `collect` of a lazy frame reads the lake as it is then, unless the lake is opened
        `as_of`. DuckDB reads only the columns and rows that Polars asks for.
        """
        from polars import DataFrame  # noqa: PLC0415 - as the module says
        from polars.io.plugins import register_io_source  # noqa: PLC0415

        from fleetlake.analysis.polars_scans import frames  # noqa: PLC0415

        if not lazy:
            return DataFrame(self.arrow())
        with self._relation() as relation:
            schema = DataFrame(relation.limit(0).to_arrow_table()).schema
        return register_io_source(partial(frames, self._relation, ROWS_AT_ONCE), schema=schema)

    def arrow(self) -> "pa.Table":
        """Return the rows as a PyArrow table."""
        with self._relation() as relation:
            return relation.to_arrow_table()

    def batches(self, rows: int = ROWS_AT_ONCE) -> "Iterator[pa.RecordBatch]":
        """Yield the rows as Arrow record batches of one snapshot, without holding all of them."""
        with self._relation() as relation:
            yield from relation.to_arrow_reader(rows)

    def tuples(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of one snapshot as tuples of Python's own types."""
        with self._relation() as relation:
            while found := relation.fetchmany(FEW_AT_ONCE):
                yield from found

    def df(self) -> "PandasFrame":
        """Return the rows as a pandas data frame. Raises: UsageError if pandas is not installed."""
        if find_spec("pandas") is None:
            raise UsageError(
                "pandas is not installed.",
                remedy="Install it (`pip install pandas`), or use `.pl()` or `.arrow()`.",
            )
        with self._relation() as relation:
            return relation.df()

    @property
    def proof(self) -> "AnswerProof":
        """What the rows rest on: until when they are complete, and why they are not.

        Raises: UsageError for a published snapshot, which has no record of that.
        """
        return self._prove()

    @property
    def columns(self) -> dict[str, str]:
        """The columns with their SQL types."""
        with self._relation() as relation:
            kinds = map(str, relation.types)
            return dict(zip(relation.columns, kinds, strict=True))


class MetricRows(Selection):
    """The rows of metrics, and the SQL that computes them."""

    def __init__(
        self, relation: OpenRelation, prove: "Callable[[], AnswerProof]", sql: str
    ) -> None:
        super().__init__(relation, prove)
        self.sql = sql


class Table(Selection):
    """A table of the lake; its docstring and `repr` describe the columns."""

    def __init__(
        self, relation: OpenRelation, prove: "Callable[[], AnswerProof]", meanings: dict[str, str]
    ) -> None:
        super().__init__(relation, prove)
        self.meanings = meanings

    def __repr__(self) -> str:
        """Return the description: what one row is, and what each column means."""
        return (self.__doc__ or "").strip()


def described(name: str, about: str, columns: dict[str, tuple[str, str]]) -> type[Table]:
    """Return a class for one table, whose docstring `help` and `?` show.

    `columns` has the type and meaning of each column.
    """
    width = max(map(len, columns), default=0)
    lines = [
        f"  {column:<{width}}  {kind}{': ' if text else ''}{text}"
        for column, (kind, text) in columns.items()
    ]
    doc = "\n".join([f"{name}: {about}", "", *lines])
    attributes: dict[str, Any] = {"__doc__": doc, "__module__": __name__}
    return type(name, (Table,), attributes)
