"""The software bill of materials holds every locked package, in the form of CycloneDX 1.5."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import jsonschema
import pytest

from tools.sbom import LOCK, bill_of, read_lock

SCHEMA = json.loads((Path(__file__).parent / "cyclonedx-1.5.json").read_text())
THEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture(scope="module")
def bill():
    """Return the bill of the lock file."""
    return bill_of(LOCK.read_text(), written_at=THEN)


def test_the_bill_is_as_the_schema_requires(bill):
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    jsonschema.validate(bill, SCHEMA, jsonschema.Draft7Validator)


def test_every_package_and_every_hash_of_the_lock_is_in_the_bill(bill):
    text = LOCK.read_text()
    pinned = re.findall(r"^([\w.-]+)(?:\[.*?\])?==([^\s;]+)", text, re.MULTILINE)

    assert [(c["name"], c["version"]) for c in bill["components"]] == pinned
    hashes = [one["content"] for c in bill["components"] for one in c["hashes"]]
    assert sorted(hashes) == sorted(re.findall(r"sha256:(\w+)", text))


def test_the_bill_tells_what_is_needed_at_run_time_from_extras_and_tools(bill):
    scopes = {c["name"]: c["scope"] for c in bill["components"]}

    assert {scopes[name] for name in ("duckdb", "httpx", "dbt-core", "idna")} == {"required"}
    assert {scopes[name] for name in ("prefect", "deltalake", "asyncpg")} == {"optional"}
    assert {scopes[name] for name in ("pytest", "mypy", "ruff", "moto")} == {"excluded"}


def test_every_reference_is_to_a_component_and_every_component_but_ours_is_needed(bill):
    refs = [c["bom-ref"] for c in bill["components"]]
    own = bill["metadata"]["component"]["bom-ref"]
    needed = {ref for one in bill["dependencies"] for ref in one["dependsOn"]}

    assert len(set(refs)) == len(refs)
    assert {one["ref"] for one in bill["dependencies"]} == {own, *refs}
    assert needed == set(refs)


def test_most_components_tell_their_licence_and_none_is_guessed(bill):
    by_name = {c["name"]: c.get("licenses") for c in bill["components"]}

    assert by_name["httpx"] == [{"license": {"name": "BSD License"}}]
    assert by_name["filelock"] == [{"expression": "MIT"}]
    assert by_name["pywin32"] is None, "it is not installed here"
    assert sum(map(bool, by_name.values())) > 0.9 * len(by_name)


def test_the_same_lock_and_time_give_the_same_bill(bill):
    assert bill_of(LOCK.read_text(), written_at=THEN) == bill
    assert bill["metadata"]["timestamp"] == "2026-01-02T03:04:05Z"


@pytest.mark.parametrize("line", ["numpy>=2 --hash=sha256:0f", "numpy==2", "-e ."])
def test_a_line_that_pins_nothing_is_an_error(line):
    with pytest.raises(ValueError, match="not a package"):
        list(read_lock(line))
