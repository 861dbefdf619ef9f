"""The SQL project of a build: ours, extended by the user's own project.

dbt gets one project, so that own models `ref()` ours, use our macros and run in one build. If the
user's project has a folder `sql`, a table `[vars]`, a `places.csv`, lists of its own or the
vendor's words for types, that project is put together in `<lake>/dbt/project`: links to both
sources, our `dbt_project.yml` with the changes, the places as seeds, and the staging views of own
lists. Otherwise dbt reads ours where it is installed. Neither source is written to.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from fleetlake.endpoints import own_lists
from fleetlake.endpoints.model import Endpoint, Mode
from fleetlake.errors import BuildFailed
from fleetlake.machine.project import SETTINGS_NAME, found_project, is_clone, package_files
from fleetlake.machine.setting_files import VARS, read_settings_file
from fleetlake.marts.named_places import place_seeds
from fleetlake.settings import VendorWords, load_settings
from fleetlake.settings.vendor_words import TABLE as WORDS
from fleetlake.text.wording import did_you_mean


def own_sources() -> Iterator[dict[str, Any]]:
    """Yield the entry of each described list for dbt's source `raw`."""
    for one in own_lists().values():
        row = one.endpoint
        live = {"config": {"tags": ["live"]}} if row.is_live else {}
        about = row.about.replace("{", "(").replace("}", ")")  # dbt would take it for a template
        yield {"name": row.name, "description": about, **live}


def own_views() -> dict[str, str]:
    """Return the SQL of the staging view of each described list, by the view's name."""
    return {f"stg_{name}": _view(one.endpoint) for name, one in own_lists().items()}


def staging_files(taken: frozenset[str]) -> dict[str, str]:
    """Return the files that dbt reads for the described lists, by name; empty if there are none.

    `taken` are names of models that the project has itself.
    """
    tables = [*own_sources()]
    if not tables:
        return {}
    database = "{{ 'lake' if target.type == 'duckdb' else none }}"
    raw = {"name": "raw", "database": database, "schema": "raw", "tables": tables}
    sources = yaml.safe_dump({"version": 2, "sources": [raw]}, sort_keys=False)
    views = {f"{name}.sql": sql for name, sql in own_views().items() if name not in taken}
    return {"_described_sources.yml": sources, **views}


def _view(row: Endpoint) -> str:
    is_history = row.mode is Mode.HISTORY
    names = ["account_profile", *(c.name for c in row.columns), *(["valid_from"] * is_history)]
    columns = "".join(f"    {{{{ adapter.quote('{name}') }}}},\n" for name in names)
    grain = "thing, as it is now" if is_history else ", ".join(row.key)
    return (
        f"-- Grain: one row per {grain}.\n-- Kind: view.\n\n"
        f"select\n{columns}    _loaded_at as loaded_at\n"
        f"from {{{{ source('raw', '{row.name}') }}}}\n"
        + ("where valid_to is null\n" if is_history else "")
    )


SQL = "sql"
METRICS = "metrics"
"""Folder of metrics in a dbt project; no build reads it."""

_PROJECT_FILE = "dbt_project.yml"
_DESCRIBED = "described"
"""Folder of the merged project with the staging views of described lists."""

_PARTS = ("models", "macros", "tests")
_SOURCES = {".sql", ".yml", ".yaml", ".csv"}

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The parser in C, which most builds of PyYAML have, reads our models in 0.1 s instead of 0.5 s."""

_VARIES = re.compile(
    r"\b(run_query|statement|execute|load_result|adapter|graph|flags|run_started_at|invocation_id"
    r"|modules|env_var)\b"
)
"""What in a template may give other statements in the next build of the same project."""

Variables = Mapping[str, int | float]


def project_folder() -> Path:
    """Return the folder of our dbt project."""
    return package_files() / SQL


def parse_yaml(text: str) -> Any:
    """Return the content of a YAML text. Raises: yaml.YAMLError."""
    return yaml.load(text, Loader=_LOADER)  # noqa: S506 - either loader is a safe one


def own_sql() -> Path | None:
    """Return the folder `sql` of the user's project, None if there is none."""
    project = found_project()
    if project is None or (is_clone() and project == package_files()):
        return None
    folder = project / SQL
    return folder if folder.is_dir() else None


def profiles_folder() -> Path:
    """Return the folder of the `profiles.yml` with the targets: the user's own, otherwise ours."""
    own = own_sql()
    return own if own and (own / "profiles.yml").exists() else project_folder()


def own_models() -> list[Path]:
    """Return the files of the user's own models."""
    own = own_sql()
    return sorted((own / "models").rglob("*.sql")) if own else []


def own_variables() -> Variables:
    """Return the variables that the user's project overrides.

    Raises: BuildFailed for one that does not exist, or is not a number.
    """
    given = read_settings_file().get(VARS, {})
    if not isinstance(given, dict):
        raise _wrong(f"{VARS} in {SETTINGS_NAME} is not a table.", "Write it as [vars].")
    known = _settings_of(project_folder())[VARS]
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _wrong(f"[vars] {name} in {SETTINGS_NAME} is not a number.", "Enter a number.")
        if name not in known and not _is_used(name):
            meant = did_you_mean(name, known)
            raise _wrong(
                f"There is no variable {name}, which [vars] in {SETTINGS_NAME} sets.",
                f"{meant}{project_folder() / _PROJECT_FILE} lists the variables.",
            )
    return given


def _described() -> dict[str, str]:
    """Return the files of the staging views of described lists that the project does not have."""
    return staging_files(frozenset(path.stem for path in own_models()))


def _words() -> dict[str, Any]:
    """Return the variable that has the vendor's words for types; empty if there are none."""
    words = load_settings().words
    types = words.types()
    is_plain = not types and words.alternate == VendorWords().alternate
    return {} if is_plain else {WORDS: {"alternate": words.alternate, "types": types}}


def variable(name: str) -> int | float:
    """Return a variable of the dbt project, as the user's project sets it. Raises: BuildFailed."""
    value: int | float = {**_settings_of(project_folder())[VARS], **own_variables()}[name]
    return value


def _is_used(name: str) -> bool:
    """Return whether an own model uses a variable."""
    pattern = re.compile(rf"""\bvar\(\s*["']{re.escape(name)}["']""")
    return any(pattern.search(path.read_text("utf-8")) for path in own_models())


def varies() -> bool:
    """Return whether the user's own models may give other statements in each build."""
    files = (path for part in _PARTS for path in _own_files(part, ".sql", ".yml", ".yaml"))
    return any(_VARIES.search(path.read_text("utf-8")) for path in files)


def own_entries(kind: str = "models") -> Iterator[dict[str, Any]]:
    """Yield what the user's YAML files say of each own model, or exposure. Raises: BuildFailed."""
    names = {path.stem for path in own_models()}
    for path in _own_files("models", ".yml", ".yaml"):
        try:
            content = parse_yaml(path.read_text("utf-8")) or {}
        except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
            raise _wrong(f"{path} is not valid YAML: {error}", "Correct it.") from None
        if not isinstance(content, dict):
            raise _wrong(f"{path} is not a YAML mapping.", "Correct it.")
        entries = content.get(kind) or ()
        yield from (e for e in entries if kind != "models" or e.get("name") in names)


def _own_files(part: str, *suffixes: str) -> list[Path]:
    own = own_sql()
    files = (own / part).rglob("*") if own else ()
    return sorted(path for path in files if path.suffix in suffixes)


def project_digest(ours: Path) -> str:
    """Return a digest of what a build depends on: both projects' files, and own variables.

    Metrics are read when they are asked for: a changed one builds nothing again.
    """
    digest = hashlib.sha256()
    for folder in filter(None, (ours, own_sql())):
        for path in sorted(folder.rglob("*")):
            if path.suffix in _SOURCES and path.parent != folder / METRICS:
                digest.update(path.name.encode() + path.read_bytes())
    for name, text in {**place_seeds(), **_described()}.items():
        digest.update(name.encode() + text.encode())
    if variables := {**own_variables(), **_words()}:
        digest.update(json.dumps(variables, sort_keys=True).encode())
    return digest.hexdigest()


def ready_project(ours: Path, work: Path) -> Path:
    """Return the folder of the dbt project to run; put it together below `work` if necessary.

    Raises: BuildFailed for a model that has a name of ours, a seed that lacks columns of the one
    it replaces, a wrong variable, or a wrong row of places.
    """
    own, places, described = own_sql(), place_seeds(), _described()
    variables = {**own_variables(), **_words()}
    if own is None and not variables and not places and not described:
        return ours
    _refuse_names_of_ours(ours)
    merged = work / "project"
    (merged / "seeds").mkdir(parents=True, exist_ok=True)
    for part in ("models", "macros"):
        _link(merged / part, ours / part)
    _link(merged / SQL, own)
    _link_seeds(merged / "seeds", ours / "seeds", places)
    staging = merged / _DESCRIBED / "staging"
    staging.mkdir(parents=True, exist_ok=True)
    for file in staging.iterdir():
        if file.name not in described:
            file.unlink()
    for name, text in described.items():
        _write(staging / name, text)
    settings = yaml.safe_dump(_merged_settings(ours, variables), sort_keys=False)
    _write(merged / _PROJECT_FILE, settings)
    return merged


def _write(file: Path, text: str) -> None:
    """Write a file unless it has this text: dbt reads a file again after it was written."""
    if not file.exists() or file.read_text("utf-8") != text:
        file.write_text(text, "utf-8")


def _merged_settings(ours: Path, variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of `dbt_project.yml` for the merged project.

    Own models become tables in the schema `marts`, without a contract, unless they say otherwise.
    """
    settings = dict(_settings_of(ours))
    for part in (*_PARTS, "seeds"):
        settings[f"{part.removesuffix('s')}-paths"] = [part, f"{SQL}/{part}"]
    settings["model-paths"].append(_DESCRIBED)
    settings[VARS] = {**settings[VARS], **variables}
    models = dict(settings["models"]["fleetlake"])
    marts = dict(models["marts"])
    contract = marts.pop("+contract")
    subjects = (path.name for path in (ours / "models" / "marts").iterdir() if path.is_dir())
    marts |= {subject: {"+contract": dict(contract)} for subject in sorted(subjects)}
    defaults = {"+schema": "marts", "+materialized": "table"}
    settings["models"] = {"fleetlake": {**defaults, **models, "marts": marts}}
    return settings


@cache
def _settings_of(project: Path) -> dict[str, Any]:
    settings: dict[str, Any] = parse_yaml((project / _PROJECT_FILE).read_text("utf-8"))
    return settings


def _refuse_names_of_ours(ours: Path) -> None:
    """Refuse own models that have the name of one of ours. Raises: BuildFailed."""
    taken = {path.stem for path in (ours / "models").rglob("*.sql")}
    taken |= {path.stem for path in (ours / "seeds").glob("*.csv")}
    if double := [path for path in own_models() if path.stem in taken]:
        names = ", ".join(str(path) for path in double)
        raise _wrong(f"fleetlake has a model of the same name as {names}.", "Rename your model.")


def _link_seeds(folder: Path, ours: Path, written: Mapping[str, str]) -> None:
    """Link our seeds, except those that are written or that the user's project replaces.

    Raises: BuildFailed.
    """
    replaced = {path.name: path for path in _own_files("seeds", ".csv")}
    for path in ours.iterdir():
        is_replaced = path.name in replaced
        if is_replaced:
            _require_columns(replaced[path.name], path)
        link = folder / path.name
        is_written = not is_replaced and path.name in written
        _link(link, None if is_replaced or is_written else path)
        if is_written:
            link.write_text(written[path.name], "utf-8")


def _require_columns(own: Path, ours: Path) -> None:
    """Require a replaced seed to have the columns of ours. Raises: BuildFailed."""
    header, wanted = (_columns_of(path) for path in (own, ours))
    if missing := [name for name in wanted if name not in header]:
        raise _wrong(
            f"{own} lacks the columns {', '.join(missing)}.", f"Give it the columns of {ours}."
        )


def _columns_of(path: Path) -> list[str]:
    first = path.read_text("utf-8-sig").partition("\n")[0]
    return [name.strip().strip('"') for name in first.split(",")]


def _link(link: Path, target: Path | None) -> None:
    """Make a symbolic link, or replace one that leads elsewhere; None removes it."""
    if target is not None and link.is_symlink() and link.readlink() == target:
        return
    link.unlink(missing_ok=True)
    if target is not None:
        link.symlink_to(target)


def _wrong(what: str, remedy: str) -> BuildFailed:
    return BuildFailed(what, remedy=remedy)
