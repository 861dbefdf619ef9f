"""The metrics and their dimensions: our files in `sql/metrics`, and those of the user's project.

They are dbt's semantic models and metrics. They are not among the models that a build runs: dbt
would check all of them each hour. With `metrics` in `model-paths`, dbt and its tools read them.

A dimension comes from the mart of a metric, or through its device from `device_inventory`, so that
an account, a group or a carrier is the present one.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from fleetlake.errors import UsageError
from fleetlake.marts.catalogue import sources_of
from fleetlake.marts.sql_project import METRICS, own_sql, parse_yaml, project_folder

UNITS = {
    "pct": "%",
    "s": "s",
    "bytes": "bytes",
    "km": "km",
    "kmh": "km/h",
    "c": "°C",
    "dbm": "dBm",
    "db": "dB",
}
"""Units by the end of a metric's name."""

MOST_SAID = 300
"""Characters of a library's message that an error quotes."""

Files = tuple[tuple[Path, int], ...]
"""Files of metrics, each with the time of its last change."""

_REF = re.compile(r"ref\(['\"](\w+)['\"]\)")
_MODELS = "semantic_models"


@dataclass(frozen=True, kw_only=True)
class MetricDefinition:
    """A figure: its name, what it says, the marts that it is read from and those of its dimensions.

    One `is_now` says what is the case at present, so it has no time. An `is_whole` one is a whole
    number. An `is_sum` one grows with the time. An `is_monthly` one is known by UTC month. An
    `is_part` one is only there for others that are computed from it. The files say `now`, `whole`,
    `monthly` and `part` in a metric's `config: {meta: ...}`. `streams` must be complete for it:
    those that a semantic model names there, or all that its marts rest on.
    """

    name: str
    label: str
    about: str
    marts: tuple[str, ...]
    joined: tuple[str, ...] = ()
    streams: tuple[str, ...] = ()
    is_now: bool = False
    is_whole: bool = False
    is_sum: bool = False
    is_monthly: bool = False
    is_part: bool = False

    @property
    def unit(self) -> str:
        """The unit, empty for a number of things."""
        return UNITS.get(self.name.rpartition("_")[2], "")


def metrics(files: Files | None = None) -> Mapping[str, MetricDefinition]:
    """Return the metrics by name, ours first. Raises: UsageError for a file that is wrong."""
    try:
        return _metrics(files or state())
    except (AttributeError, TypeError, RecursionError) as error:  # a text where a table belongs
        raise wrong_files(error) from None


def wrong_files(error: Exception) -> UsageError:
    """Return what is wrong with the project's files, as far as the error says."""
    what = " ".join(str(error).split())[:MOST_SAID].rstrip(".")
    return UsageError(
        f"The metrics of the project are wrong: {what}.",
        remedy=f"Correct the files in {own_sql() or project_folder()}/{METRICS}.",
    )


def manifest(schema: str, files: Files) -> dict[str, Any]:
    """Return what the files say in MetricFlow's form, over marts in a schema.

    Raises: UsageError for a file that is wrong.
    """
    written = _written(files)
    return {
        _MODELS: [_placed(one, schema) for one in written[_MODELS]],
        "metrics": written["metrics"],
        "project_configuration": {
            "time_spine_table_configurations": [],
            "time_spines": [
                {
                    "node_relation": _relation("int_days", "intermediate"),
                    "primary_column": {"name": "day_date", "time_granularity": "day"},
                    "custom_granularities": [],
                }
            ],
        },
    }


def state(*, is_ours: bool = False) -> Files:
    """Return the files with what changes when they do: ours only, or those of the project, too."""
    own = None if is_ours else own_sql()
    folders = [folder / METRICS for folder in (project_folder(), own) if folder]
    found = [file for folder in folders for file in sorted(folder.glob("*.yml"))]
    # A link to nothing is kept: reading it says so.
    return tuple((file, file.stat().st_mtime_ns if file.exists() else 0) for file in found)


@lru_cache(maxsize=2)
def _written(files: Files) -> dict[str, list[dict[str, Any]]]:
    """Return the semantic models and metrics of all files."""
    found: dict[str, list[dict[str, Any]]] = {_MODELS: [], "metrics": []}
    for file, _ in files:
        try:
            content = parse_yaml(file.read_text("utf-8")) or {}
            for part in found:
                found[part] += ({**one, "file": file} for one in content.get(part) or ())
        except (OSError, yaml.YAMLError, ValueError, AttributeError, TypeError) as error:
            raise UsageError(f"{file} cannot be read: {error}.", remedy="Correct it.") from None
    for entries in found.values():
        names = Counter(str(one.get("name")) for one in entries)
        for one in entries:
            if names[str(one.get("name"))] > 1 and one["file"].parent != project_folder() / METRICS:
                raise UsageError(
                    f"{one['file']}: the name {one.get('name')!r} is taken.", remedy="Rename it."
                )
    return found


def _placed(model: Mapping[str, Any], schema: str) -> dict[str, Any]:
    """Return a semantic model with the table that dbt's `ref` stands for."""
    named = _REF.fullmatch(str(model.get("model")))
    if not named:
        raise UsageError(
            f"{model['file']}: the semantic model {model.get('name')!r} names no mart.",
            remedy="Write `model: ref('name_of_a_mart')`.",
        )
    kept = {key: value for key, value in model.items() if key not in ("model", "file")}
    return {**kept, "node_relation": _relation(named[1], schema)}


def _relation(table: str, schema: str) -> dict[str, str]:
    return {"alias": table, "schema_name": schema, "relation_name": f'{schema}."{table}"'}


@lru_cache(maxsize=2)
def _metrics(files: Files) -> Mapping[str, MetricDefinition]:
    written = _written(files)
    models = {
        named[1]: model
        for model in written[_MODELS]
        if (named := _REF.fullmatch(str(model.get("model"))))
    }
    mart_of = {
        str(measure.get("name")): mart
        for mart, model in models.items()
        for measure in model.get("measures", ())
    }
    sums = {
        measure.get("name")
        for model in written[_MODELS]
        for measure in model.get("measures", ())
        if str(measure.get("agg")).startswith("sum")
    }
    entries = {str(one.get("name")): one for one in written["metrics"]}
    found = {}
    for name, one in entries.items():
        meta = one.get("config", {}).get("meta", {})
        read = tuple(dict.fromkeys(_marts(one, entries, mart_of)))
        found[name] = MetricDefinition(
            name=name,
            label=one.get("label", name),
            about=one.get("description", ""),
            marts=read,
            joined=tuple(dict.fromkeys(to for mart in read for to in _joined(mart, models))),
            streams=tuple(sorted({one for mart in read for one in _streams(mart, models[mart])})),
            is_now=bool(meta.get("now")),
            is_whole=bool(meta.get("whole")),
            is_sum=_measure(one) in sums,
            is_monthly=bool(meta.get("monthly")),
            is_part=bool(meta.get("part")),
        )
    return found


def _marts(
    metric: Mapping[str, Any], entries: Mapping[str, Mapping[str, Any]], mart_of: Mapping[str, str]
) -> Iterator[str]:
    """Yield the marts of a metric, which may be computed from others."""
    given = metric.get("type_params", {})
    if mart := mart_of.get(_measure(metric)):
        yield mart
    parts = [*given.get("metrics", ()), given.get("numerator"), given.get("denominator")]
    for part in parts:
        named = str(part.get("name") if isinstance(part, dict) else part)
        if named in entries and named != metric.get("name"):
            yield from _marts(entries[named], entries, mart_of)


def _streams(mart: str, model: Mapping[str, Any]) -> list[str]:
    """Return the streams that must be complete for the figures of a mart."""
    declared = model.get("config", {}).get("meta", {}).get("streams")
    raw = [table.partition("raw.")[2] for table in sources_of(mart) or ()]
    return declared or [name for name in raw if name]


def _joined(mart: str, models: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield the marts that the entities of a mart lead to."""
    for entity in models[mart].get("entities", ()):
        if entity.get("type") == "foreign":
            wanted = {"name": entity.get("name"), "type": "primary"}
            for other, model in models.items():
                if any(wanted.items() <= one.items() for one in model.get("entities", ())):
                    yield other
                    yield from _joined(other, models)


def _measure(metric: Mapping[str, Any]) -> str:
    """Return the measure of a simple metric, empty for one that is computed from others."""
    measure = metric.get("type_params", {}).get("measure")
    return str((measure.get("name") if isinstance(measure, dict) else measure) or "")
