"""What is rendered from the code: tables of `docs/reference/`, and the SQL project's sources.

`python -m tools.reference` (`make reference`) writes them into their files; a test compares them.
"""

import ast
import inspect
import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

import typer.main
import yaml
from prometheus_client import Metric
from pydantic.fields import FieldInfo

import fleetlake
from fleetlake import errors
from fleetlake.analysis.data_contract import as_yaml, released_contract
from fleetlake.analysis.frames import Selection, Table
from fleetlake.analysis.reader import LakeReader, Schema
from fleetlake.cli import EPILOG, app
from fleetlake.dashboard.metric_panels import WRITTEN, digest, narrowing_of, sql_key
from fleetlake.dashboard.panels import dashboard_pages
from fleetlake.dashboard.request_counts import RequestCounts
from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.model import Endpoint
from fleetlake.marts.catalogue import mart_keys, marts, meaning_of
from fleetlake.marts.sql_project import project_folder
from fleetlake.monitoring.prometheus import MEANINGS, METRICS
from fleetlake.receiving.intake import IntakeCounts
from fleetlake.semantic_layer.definitions import state
from fleetlake.settings import Settings
from tools.blocks import filled, without_placeholders
from tools.contract_changes import CONTRACT

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"

Command = Any
"""A command of Typer, which has its own copy of Click's classes."""


def table(head: str, rows: Iterator[tuple[str, ...]]) -> str:
    r"""Return rows as a Markdown table; `head` names the columns, separated by `|`.

    >>> print(table("a | b", iter([("1", "x|y")])))
    | a | b |
    |---|---|
    | 1 | x\|y |
    """
    cells = [" | ".join(_as_cell(cell) for cell in row) for row in rows]
    rule = "|---" * len(head.split("|")) + "|"
    return "\n".join([f"| {head} |", rule, *(f"| {line} |" for line in cells)])


def _as_cell(text: str) -> str:
    return without_placeholders(text.replace("|", "\\|"))


def endpoint_table() -> str:
    """Return the table of endpoints."""
    return table(
        "table | key | kept as | what it holds",
        (
            (f"`raw.{e.name}`", ", ".join(f"`{name}`" for name in e.key), _kept(e), e.about)
            for e in ENDPOINTS.values()
        ),
    )


def _kept(endpoint: Endpoint) -> str:
    limit = endpoint.retention and f"; deleted by the service after {endpoint.retention.days} days"
    return f"{endpoint.mode}{limit or ''}"


def settings_table() -> str:
    """Return the table of settings."""
    return table(
        "setting | default | what it is",
        (
            (f"`FLEETLAKE_{name.upper()}`", _default_setting(field), field.description or "")
            for name, field in Settings.model_fields.items()
        ),
    )


def _default_setting(field: FieldInfo) -> str:
    default = field.default
    if field.default_factory not in {None, dict}:
        default = "~/.local/state/fleetlake"  # on Linux; XDG_STATE_HOME moves it
    if isinstance(default, tuple) and default:
        return f"`{','.join(default)}`"
    is_secret = "SecretStr" in str(field.annotation)
    is_empty = default in ({}, (), None) or str(default) in {"", "PydanticUndefined"}
    return "" if is_empty or is_secret else f"`{default}`"


def command_pages() -> str:
    """Return every command: what it does, its arguments and its options."""
    return "\n\n".join(_command(name, command) for name, command in leaf_commands())


def leaf_commands(group: Command = None, path: str = "fleetlake") -> Iterator[tuple[str, Command]]:
    """Yield each command that does something, with its full name, in the order of the help."""
    group = group or typer.main.get_command(app)
    for name in group.list_commands(None):
        command = group.commands[name]
        if hasattr(command, "commands"):
            yield from leaf_commands(command, f"{path} {name}")
        elif not command.hidden:
            yield f"{path} {name}", command


def _command(name: str, command: Command) -> str:
    shown = [parameter for parameter in command.params if not getattr(parameter, "hidden", False)]
    parts = [f"## {name}", without_placeholders(command.help.strip())]
    if shown:
        rows = ((_spelling(p), _default(p), p.help or "") for p in shown)
        parts.append(table("option | default | what it does", rows))
    return "\n\n".join(parts)


def _spelling(parameter: Command) -> str:
    """Return how a parameter is typed, e.g. `--from TIME`."""
    if parameter.param_type_name == "argument":
        return f"`{parameter.metavar or parameter.name.upper()}`"
    words = ", ".join([*parameter.opts, *parameter.secondary_opts])
    return f"`{words}`" if parameter.is_flag else f"`{words} {parameter.metavar or 'VALUE'}`"


def _default(parameter: Command) -> str:
    if parameter.required:
        return "required"
    if isinstance(parameter.show_default, str):
        return parameter.show_default
    value = getattr(parameter.default, "value", parameter.default)
    unset = value is None or value is False or value == "" or callable(value)
    return "" if unset else f"`{value}`"


def exit_code_table() -> str:
    """Return the exit codes, with the errors that end so and what to do about them."""
    meanings = re.findall(r"(\d+) ([^,.]+)", EPILOG)
    return table(
        "code | meaning | error: what to do",
        ((f"{code}", meaning, "<br>".join(_errors_of(code))) for code, meaning in meanings),
    )


def _errors_of(code: str) -> Iterator[str]:
    """Yield the errors of the drawing in `errors.py` that end with a code, except bare families."""
    drawn = re.findall(r"([A-Z]\w+) +(\d+) +(\S.*)", errors.__doc__ or "")
    return (f"`{name}`: {advice}" for name, of_code, advice in drawn if of_code == code)


def raw_columns() -> str:
    """Return the columns of each raw table: type, unit, meaning."""
    parts = []
    for endpoint in ENDPOINTS.values():
        rows = (
            (f"`{c.name}`", c.sql_type.lower(), c.unit or "", c.meaning) for c in endpoint.columns
        )
        columns = table("column | type | unit | meaning", rows)
        parts.append(f"## raw.{endpoint.name}\n\n{endpoint.about}\n\n{columns}")
    return "\n\n".join(parts)


def mart_columns() -> str:
    """Return the columns of each mart, with its grain and key."""
    parts = []
    for mart in marts():
        rows = (
            (f"`{c['name']}`", c["data_type"], meaning_of(c["description"]))
            for c in mart["columns"]
        )
        key = ", ".join(f"`{name}`" for name in mart_keys()[mart["name"]])
        grain = f"One row per {mart['config']['meta']['grain']}. Key: {key}."
        columns = table("column | type | meaning", rows)
        parts.append(
            f"## marts.{mart['name']}\n\n{mart['description'].strip()}\n\n{grain}\n\n{columns}"
        )
    return "\n\n".join(parts)


STUB = Path(__file__).parents[1] / "src" / "fleetlake" / "analysis" / "known_tables.pyi"


def known_tables() -> str:
    """Return the stub that tells editors and type checkers the tables of a lake."""
    raw = {endpoint.name: endpoint.about for endpoint in ENDPOINTS.values()}
    ours = {mart["name"]: mart["description"].strip() for mart in marts()}
    return (
        '"""The tables of a lake, for editors. Rendered by `make reference`."""\n\n'
        "from fleetlake.analysis.frames import Table\n"
        "from fleetlake.analysis.reader import Schema\n"
        + _stub_of("Raw", "The raw tables: one per endpoint.", raw)
        + _stub_of("Marts", "The marts of this release; your own are there, too.", ours)
    )


def contract_text() -> str:
    """Return the contract of the marts, as YAML."""
    return f"# Rendered by `make reference`.\n{as_yaml(released_contract())}"


def _stub_of(name: str, about: str, tables: Mapping[str, str]) -> str:
    lines = [f'    {table}: Table\n    """{text}"""' for table, text in tables.items()]
    return "\n".join([f'\nclass {name}(Schema):\n    """{about}"""\n', *lines, ""])


def metric_table() -> str:
    """Return every Prometheus metric with its type and labels."""
    rows = (
        (
            f"`{name}`",
            METRICS[name].kind(name, about).type,
            ", ".join(f"`{label}`" for label in METRICS[name].labels),
            about,
        )
        for name, about in MEANINGS.items()
    )
    return table("metric | type | labels | meaning", rows)


def receiver_metric_table() -> str:
    """Return every metric that the receiver adds."""
    counts = IntakeCounts()
    return family_table([*counts.registry.collect(), *counts.drainer.collect()])


def dashboard_metric_table() -> str:
    """Return every metric of the dashboard."""
    counts = RequestCounts()
    counts.requests.labels("now", "200")
    return family_table([*counts.registry.collect(), *counts.of_snapshot.collect()])


def family_table(families: list[Metric]) -> str:
    """Return metrics as a table, as Prometheus' client collects them."""
    rows = (
        (
            f"`{m.name}{'_total' * (m.type == 'counter')}`",
            m.type,
            ", ".join(sorted({f"`{label}`" for sample in m.samples for label in sample.labels})),
            m.documentation,
        )
        for m in families
    )
    return table("metric | type | labels | meaning", rows)


PYTHON = (fleetlake, LakeReader, Schema, Table, Selection)
"""The Python API: the module, then its classes in the order of the page."""


def python_api() -> str:
    """Return each public function, class, method and property of the Python API."""
    return "\n\n".join("\n\n".join(_api_of(thing)) for thing in PYTHON)


def _api_of(thing: Any) -> Iterator[str]:
    """Yield the heading and text of a class, then of each public function in its source."""
    source = ast.parse(inspect.getsource(thing))
    body, owner, level = source.body, "fleetlake.", "##"
    if isinstance(source.body[0], ast.ClassDef):
        [definition] = source.body
        body, owner, level = definition.body, ".", "###"
        yield f"## {definition.name}\n\n{ast.get_docstring(definition)}"
    for node in body:
        text = isinstance(node, ast.FunctionDef) and ast.get_docstring(node)
        if text and not node.name.startswith("_"):
            yield f"{level} `{owner}{_signature(node)}`\n\n{_blocks(text)}"


def _signature(node: ast.FunctionDef) -> str:
    """Return how a function is called and what it returns; of a property, only the latter.

    >>> _signature(ast.parse("def pl(self, *, lazy: bool=False) -> 'Frame': ...").body[0])
    'pl(*, lazy: bool=False) -> Frame'
    """
    parameters = re.sub(r"^self(, )?", "", ast.unparse(node.args))
    called = "" if node.decorator_list else f"({parameters})"
    returned = ast.unparse(node.returns) if node.returns else "None"
    return f"{node.name}{called} -> {returned}".replace("'", "")


def mart_table() -> str:
    """Return the table of marts."""
    return table(
        "Mart | One row per | Description",
        (
            (
                f"`{mart['name']}`",
                mart.get("config", {}).get("meta", {}).get("grain", ""),
                mart["description"].strip(),
            )
            for mart in marts()
        ),
    )


SOURCES = project_folder() / "models" / "staging" / "_sources.yml"
_HEAD = """\
# Rendered from src/fleetlake/endpoints/ by `make reference`; a test compares them.
version: 2
sources:
  - name: raw
    description: One table per endpoint, as the service wrote it.
    database: "{{ 'lake' if target.type == 'duckdb' else none }}"
    schema: raw
    tables:
"""


def sources_yaml() -> str:
    """Return the text of the sources of the SQL project: one table per endpoint."""
    tables = (
        f"      - {{name: {endpoint.name}, description: {_quoted(endpoint.about)}"
        f"{', config: {tags: [live]}' if endpoint.is_live else ''}}}\n"
        for endpoint in ENDPOINTS.values()
    )
    return _HEAD + "".join(tables)


def _quoted(text: str) -> str:
    """Return a text as a YAML string on one line."""
    line: str = yaml.safe_dump(text, default_style='"', allow_unicode=True, width=math.inf)
    return line.strip()


def _blocks(text: str) -> str:
    """Return a docstring as Markdown: an indented example becomes a block of code."""
    example = re.compile(r"((?:^    .*\n?)+)", re.MULTILINE)
    return example.sub(lambda m: f"```python\n{dedent(m[1]).rstrip()}\n```\n", text)


BLOCKS = {
    "python": python_api,
    "settings": settings_table,
    "endpoints": endpoint_table,
    "marts": mart_table,
    "commands": command_pages,
    "exit codes": exit_code_table,
    "raw columns": raw_columns,
    "mart columns": mart_columns,
    "metrics": metric_table,
    "receiver metrics": receiver_metric_table,
    "dashboard metrics": dashboard_metric_table,
}


def metric_panels() -> str:
    """Return the SQL of the shipped panels of metrics, and the filters that narrow them."""
    ours = state(is_ours=True)
    held = {"files": digest(ours)}
    for page in dashboard_pages().values():
        for panel in page.panels.values():
            if asked := panel.metrics:
                narrowing = narrowing_of(asked, ours)
                held[repr(asked)] = " ".join(sorted(narrowing))
                left = narrowing.difference(panel.beside)
                held[sql_key(asked, left)] = asked.written(left)
    return json.dumps(held, indent=0, sort_keys=True) + "\n"


def main() -> None:
    """Render every page of the reference, and the other files that are rendered from the code."""
    for page in REFERENCE.glob("*.md"):
        page.write_text(filled(page.read_text("utf-8"), BLOCKS), "utf-8")
    STUB.write_text(known_tables(), "utf-8")
    SOURCES.write_text(sources_yaml(), "utf-8")
    CONTRACT.write_text(contract_text(), "utf-8")
    WRITTEN.write_text(metric_panels(), "utf-8")


if __name__ == "__main__":
    main()
