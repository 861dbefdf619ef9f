"""Flows as plain functions: what they would send to Prefect's server is recorded instead."""
# ruff: noqa: PLC0415 - Prefect reads its settings when it is imported: not while tests are collected

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any

import httpx
import pytest

from tests.support.sim import Sim

MODULES = (
    *("alarm", "alert_events", "backfill", "build", "credentials", "fleet_report", "ingest"),
    *("live", "maintain", "pushes", "reports", "signals"),
)
ARTIFACTS = ("create_table_artifact", "create_markdown_artifact", "create_progress_artifact")
READERS = ("ingest_endpoints", "backfill_endpoint", "backfill", "verify")
"""The functions that read the service, by the names that flows use."""


@dataclass
class Alone:
    """What flows sent, and what they find stored at the server."""

    artifacts: dict[str, Any] = field(default_factory=dict)
    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    started: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    variables: dict[str, Any] = field(default_factory=dict)
    blocks: dict[str, Any] = field(default_factory=dict)
    alerts: list[Any] = field(default_factory=list)
    is_server_away: bool = False

    def show(self, content: Any = None, *, key: str, **_: Any) -> str:
        """Record an artifact's content."""
        self.artifacts[key] = content
        return key

    def progress(self, key: str, progress: float) -> None:
        """Record the progress of a progress artifact."""
        self.artifacts[key] = progress

    def emit(self, event: str, **rest: Any) -> None:
        """Record an event."""
        self.events.append((event, rest))

    def send(self, events: Sequence[Any]) -> None:
        """Record the events of alerts, unless the server is away."""
        if self.is_server_away:
            raise httpx.ConnectError("All connection attempts failed")
        self.alerts += events

    def start(self, name: str, **options: Any) -> None:
        """Record that a run of a deployment was requested."""
        self.started.append((name, options))

    def stand_ins(self) -> dict[str, Any]:
        """Return the replacements for Prefect's functions, by name."""
        alone = self

        class Variable:
            @staticmethod
            def get(name: str, default: Any = None) -> Any:
                return alone.variables.get(name, default)

            @staticmethod
            def set(name: str, value: Any, **_: Any) -> None:
                alone.variables[name] = value

            @staticmethod
            def unset(name: str) -> None:
                alone.variables.pop(name, None)

        class Secret:
            def __init__(self, name: str) -> None:
                self._value = alone.blocks[name]

            @classmethod
            def load(cls, name: str) -> "Secret":
                if name not in alone.blocks:
                    raise ValueError(name)
                return cls(name)

            def get(self) -> Any:
                return self._value

        return {
            **dict.fromkeys(ARTIFACTS, self.show),
            "get_run_logger": lambda: logging.getLogger(__name__),
            "update_progress_artifact": self.progress,
            "emit_event": self.emit,
            "send_events": self.send,
            "run_deployment": self.start,
            "Variable": Variable,
            "Secret": Secret,
        }


def put_alone(monkeypatch: pytest.MonkeyPatch) -> Alone:
    """Let flows and their tasks be called as functions (`flow.fn`) until the test ends."""
    from prefect.tasks import Task

    alone = Alone()
    stand_ins = alone.stand_ins()
    for module in [import_module(f"flows.{name}") for name in MODULES]:
        for name, value in list(vars(module).items()):
            if isinstance(value, Task):
                monkeypatch.setattr(module, name, value.fn)
            elif name in stand_ins:
                monkeypatch.setattr(module, name, stand_ins[name])
    return alone


def let_read(
    sim: Sim,
    monkeypatch: pytest.MonkeyPatch,
    transport: httpx.AsyncBaseTransport | None = None,
) -> None:
    """Let flows load a simulated service of this process into its lake."""

    def with_transport(read: Callable[..., Any]) -> Callable[..., Any]:
        return partial(read, transport=transport or sim.transport)

    for module in [import_module(f"flows.{name}") for name in MODULES]:
        if hasattr(module, "load_settings"):
            monkeypatch.setattr(module, "load_settings", sim.settings)
        for name in READERS:
            read = getattr(module, name, None)
            if getattr(read, "__module__", "").startswith("fleetlake."):
                monkeypatch.setattr(module, name, with_transport(read))
