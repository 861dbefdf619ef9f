"""A question about metrics, compiled to SQL by MetricFlow. Nothing is run here.

MetricFlow takes 0.7 s to import, so it is imported when the first question is asked.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from fleetlake.errors import UsageError
from fleetlake.semantic_layer.definitions import (
    Files,
    MetricDefinition,
    manifest,
    metrics,
    state,
    wrong_files,
)
from fleetlake.text.quoting import quoted
from fleetlake.text.wording import did_you_mean

if TYPE_CHECKING:
    from metricflow.engine.metricflow_engine import MetricFlowEngine

GRAINS = ("day", "week", "month", "quarter", "year")
ROUTER = "router"
_TIME = "metric_time"
_EXACT = "microsecond"
"""Granularity of the time of a metric that is known by instant, and not only by day."""

_ROUTER_NAME = "router_name"


class CallersParameter(str):
    """The name of a parameter that the caller gives when the SQL is run."""

    __slots__ = ()


class OptionalParameter(CallersParameter):
    """A parameter of the caller that narrows nothing if it is null."""

    __slots__ = ()


@dataclass(frozen=True, kw_only=True)
class MetricQuery:
    """Which metrics, by which dimensions and time, from when to when, and of what only.

    `by` has names of dimensions; `account`, `group` and `product` stand for their names, `router`
    for its id and name. Values of `only` are compared as text; None is for those without one.
    `since` is inclusive, `until` exclusive; of metrics by day, whole UTC days count. A value is a
    parameter of the SQL, its own or the caller's.
    """

    metrics: tuple[str, ...]
    by: tuple[str, ...] = ()
    grain: str = ""
    since: date | CallersParameter | None = None
    until: date | CallersParameter | None = None
    only: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class CompiledMetrics:
    """The SQL of a question, its parameters, and the marts that it reads."""

    sql: str
    parameters: Mapping[str, object]
    marts: tuple[str, ...]


def compile_metrics(
    asked: MetricQuery, *, schema: str = "marts", files: Files | None = None
) -> CompiledMetrics:
    """Return the SQL with a column for the time, each dimension and each metric, in that order.

    `files` are those of the metrics: by default ours and the project's.

    Raises: UsageError for a metric, dimension or grain that there is not, or a time of a metric
    that has none.
    """
    names = tuple(dict.fromkeys(asked.metrics))
    files = files or state()
    chosen = [metric_named(name, files) for name in names]
    if not chosen:
        raise UsageError("Name a metric.", remedy="`fleetlake metric` lists them.")
    engine = _engine(schema, files)
    paths = _paths(engine, names)
    columns = dict(_columns(asked, paths))
    conditions: list[str] = []
    parameters: dict[str, object] = {}
    for name, value in asked.only.items():
        path = _path(_named(name, paths), paths)
        if value is None:
            conditions.append(f"{_call(name, path)} is null")
            continue
        if isinstance(value, (list, tuple, set, dict)):
            raise UsageError(f"{name} must be one value.", remedy=f"Ask by {name} instead.")
        given = _parameter(value, parameters)
        condition = f"cast({_call(name, path)} as varchar) = cast({given} as varchar)"
        conditions.append(_optional(value, condition))
    exact = _EXACT if f"{_TIME}__{_EXACT}" in _listed(engine, names) else "day"
    call = f"{{{{ TimeDimension('{_TIME}', '{exact}') }}}}"
    if asked.since is not None:
        since = _parameter(asked.since, parameters)
        since = since if exact == _EXACT else f"cast({since} as date)"
        conditions.append(_optional(asked.since, f"{call} >= {since}"))
    if asked.until is not None:
        condition = f"{call} < {_parameter(asked.until, parameters)}"
        conditions.append(_optional(asked.until, condition))
    timed = asked.grain or asked.since is not None or asked.until is not None
    if timed and (now := next((one for one in chosen if one.is_now), None)):
        raise UsageError(
            f"{now.name} describes the current state, so it takes no time range.",
            remedy="Leave out grain, since and until.",
        )
    _require_months(asked, chosen)
    inner = _explained(engine, names, [*columns.values()], conditions)
    return CompiledMetrics(
        sql=_outer(inner, columns, chosen),
        parameters=parameters,
        marts=tuple(dict.fromkeys(re.findall(rf'\b{schema}\."(\w+)"', inner))),
    )


def _require_months(asked: MetricQuery, chosen: Sequence[MetricDefinition]) -> None:
    """Raise UsageError for a part of a month, if a metric is known by month: it would be 0.

    With the grain month, parameters of the caller are the first days of months.
    """
    monthly = next((one for one in chosen if one.is_monthly), None)
    ends = [end for end in (asked.since, asked.until) if end is not None]
    is_whole = all(
        asked.grain == "month" if isinstance(end, CallersParameter) else end.day == 1
        for end in ends
    )
    if monthly and not (is_whole and asked.grain not in ("day", "week")):
        raise UsageError(
            f"{monthly.name} is known by month only.",
            remedy="Begin and end at the first of a month; the grain is month or longer.",
        )


def metric_named(name: str, files: Files | None = None) -> MetricDefinition:
    """Return a metric. Raises: UsageError with the name that was meant."""
    known = metrics(files)
    if name not in known:
        raise UsageError(
            f"There is no metric {name!r}.",
            remedy=f"{did_you_mean(name, known)}`fleetlake metric` lists them.",
        )
    return known[name]


def dimensions(
    names: Sequence[str], *, schema: str = "marts", files: Files | None = None
) -> list[str]:
    """Return the dimensions that all these metrics have."""
    return sorted(_paths(_engine(schema, files or state()), names))


def _columns(asked: MetricQuery, paths: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield each column of the result, and what MetricFlow calls it."""
    if asked.grain:
        if asked.grain not in GRAINS:
            raise UsageError(
                f"There is no grain {asked.grain!r}.", remedy=f"Choose {', '.join(GRAINS)}."
            )
        yield asked.grain, f"{_TIME}__{asked.grain}"
    for name in asked.by:
        if name == ROUTER:
            yield "router_id", _path(_ROUTER_NAME, paths).removesuffix(f"__{_ROUTER_NAME}")
            yield _ROUTER_NAME, _path(_ROUTER_NAME, paths)
        else:
            named = _named(name, paths)
            yield named, _path(named, paths)


def _named(name: str, paths: Mapping[str, str]) -> str:
    """Return the dimension that a name stands for."""
    if name == ROUTER:
        return _ROUTER_NAME
    return f"{name}_name" if name not in paths and f"{name}_name" in paths else name


def _path(name: str, paths: Mapping[str, str]) -> str:
    if name not in paths:
        named = sorted(one.removesuffix("_name") for one in paths)
        has = f"These metrics have: {', '.join(named)}."
        raise UsageError(
            f"There is no dimension {name!r} for that.",
            remedy=f"{did_you_mean(name, named)}{has}"
            if named
            else "They share none: ask for each.",
        )
    return paths[name]


def _paths(engine: "MetricFlowEngine", names: Sequence[str]) -> dict[str, str]:
    """Return the way to each dimension; the nearest one, that of the mart itself first."""
    paths: dict[str, str] = {}
    for path in sorted(
        _listed(engine, names), key=lambda path: (path.count("__"), path.startswith(ROUTER))
    ):
        name = path.rpartition("__")[2]
        if not path.startswith(_TIME) and not name.endswith(("_at", "_date")):
            paths.setdefault(name, path)
    return paths


def _listed(engine: "MetricFlowEngine", names: Sequence[str]) -> set[str]:
    """Return the dimensions that all these metrics have, as MetricFlow calls them."""
    return {one.dunder_name for one in engine.simple_dimensions_for_metrics([*names])}


def _call(name: str, path: str) -> str:
    """Return how MetricFlow's conditions name a dimension; `router` is the device itself."""
    *way, entity, dimension = path.split("__")
    at = f", entity_path={way!r}" if way else ""
    if name == ROUTER:
        return f"{{{{ Entity('{entity}'{at}) }}}}"
    return f"{{{{ Dimension('{entity}__{dimension}'{at}) }}}}"


def _parameter(value: object, parameters: dict[str, object]) -> str:
    """Return the name of a value in the SQL. No value is part of its text."""
    if isinstance(value, CallersParameter):
        return f"${value}"
    name = f"given_{len(parameters)}"
    parameters[name] = value
    return f"${name}"


def _optional(value: object, condition: str) -> str:
    """Return a condition that holds if its value is left out."""
    return f"${value} is null or {condition}" if isinstance(value, OptionalParameter) else condition


def _explained(
    engine: "MetricFlowEngine", names: Sequence[str], by: list[str], conditions: list[str]
) -> str:
    from metricflow.engine.metricflow_engine import MetricFlowQueryRequest  # noqa: PLC0415
    from metricflow_semantics.errors.error_classes import MetricFlowException  # noqa: PLC0415

    request = MetricFlowQueryRequest.create(
        metric_names=[*names], group_by_names=by, where_constraints=conditions or None
    )
    try:
        sql: str = engine.explain(request).sql_statement.without_descriptions.sql
    except MetricFlowException as error:
        what = str(error).partition("\n")[0]
        raise UsageError(f"These metrics cannot be asked for together: {what}") from None
    return sql


def _outer(inner: str, columns: Mapping[str, str], chosen: Sequence[MetricDefinition]) -> str:
    """Return the SQL with our names of columns, days as dates and numbers of things as integers."""
    selected = [
        f"{quoted(path)}{'::date' if path.startswith(_TIME) else ''} as {quoted(name)}"
        for name, path in columns.items()
    ]
    for metric in chosen:
        name = quoted(metric.name)
        selected.append(f"{name}{'::bigint' if metric.is_whole else ''} as {name}")
    order = f"\norder by {', '.join(map(str, range(1, len(columns) + 1)))}" if columns else ""
    return f"select {', '.join(selected)}\nfrom (\n{inner}\n){order}"


@lru_cache(maxsize=4)
def _engine(schema: str, files: Files) -> "MetricFlowEngine":
    """Return MetricFlow over our definitions. Raises: UsageError if they are wrong."""
    from metricflow.engine.metricflow_engine import MetricFlowEngine  # noqa: PLC0415
    from metricflow.protocols.sql_client import SqlEngine  # noqa: PLC0415
    from metricflow.sql.render.duckdb_renderer import DuckDbSqlPlanRenderer  # noqa: PLC0415
    from metricflow_semantic_interfaces.implementations.semantic_manifest import (  # noqa: PLC0415
        PydanticSemanticManifest,
    )
    from metricflow_semantic_interfaces.transformations.semantic_manifest_transformer import (  # noqa: PLC0415
        PydanticSemanticManifestTransformer,
    )
    from metricflow_semantics.model.semantic_manifest_lookup import (  # noqa: PLC0415
        SemanticManifestLookup,
    )

    class DuckDbDialect:
        """All that MetricFlow needs to know of DuckDB to write SQL for it."""

        sql_engine_type = SqlEngine.DUCKDB
        sql_plan_renderer = DuckDbSqlPlanRenderer()

    try:
        parsed = PydanticSemanticManifest.parse_obj(manifest(schema, files))
        parsed = PydanticSemanticManifestTransformer.transform(parsed)
        client: Any = DuckDbDialect()
        return MetricFlowEngine(SemanticManifestLookup(parsed), client)
    except UsageError:
        raise
    except Exception as error:  # noqa: BLE001 - its checks raise whatever they stumble over
        raise wrong_files(error) from None
