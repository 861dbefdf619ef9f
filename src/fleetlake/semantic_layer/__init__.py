"""Metrics: figures that are defined once, in dbt's format, and compiled to SQL by MetricFlow."""

from fleetlake.semantic_layer.compiled import (
    CallersParameter,
    MetricQuery,
    OptionalParameter,
    compile_metrics,
    metric_named,
)
from fleetlake.semantic_layer.definitions import MetricDefinition, metrics

__all__ = [
    "CallersParameter",
    "MetricDefinition",
    "MetricQuery",
    "OptionalParameter",
    "compile_metrics",
    "metric_named",
    "metrics",
]
