"""Read Containerfile and compose.yaml, without a container engine."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
CONTAINERFILE = ROOT / "Containerfile"
COMPOSE = ROOT / "compose.yaml"

VARIABLE = re.compile(r"\$\{(\w+):\?\}")
"""A value that compose takes from the environment; without it, nothing starts."""


@dataclass(frozen=True)
class Instruction:
    """One instruction of a Containerfile, in one line."""

    stage: int
    word: str
    value: str

    @property
    def words(self) -> list[str]:
        """Return the words of an instruction in JSON form, options left out."""
        words: list[str] = json.loads(self.value[self.value.index("[") :])
        return words


def instructions(text: str) -> Iterator[Instruction]:
    r"""Yield the instructions; stages are numbered from 1.

    >>> [*instructions("FROM a\n# why\nRUN b \\\n  && c\n")][1]
    Instruction(stage=1, word='RUN', value='b && c')
    """
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    stage = 0
    for line in re.sub(r"\s*\\\n\s*", " ", "\n".join(lines)).splitlines():
        if not line.strip():
            continue
        word, _, value = line.strip().partition(" ")
        stage += word == "FROM"
        yield Instruction(stage, word, value.strip())


def image_environment() -> dict[str, str]:
    """Return the variables that the image sets."""
    found: dict[str, str] = {}
    for one in instructions(CONTAINERFILE.read_text("utf-8")):
        if one.word == "ENV" and one.stage > 1:
            found |= dict(pair.split("=", 1) for pair in one.value.split())
    return found


def services() -> dict[str, Any]:
    """Return the services of compose.yaml."""
    found: dict[str, Any] = yaml.safe_load(COMPOSE.read_text("utf-8"))["services"]
    return found


def environment_of(service: Mapping[str, Any], given: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a service, as compose fills them in.

    Raises: KeyError for a value that is not given.
    """
    return {
        name: VARIABLE.sub(lambda found: given[found[1]], str(value))
        for name, value in service.get("environment", {}).items()
        if value is not None or name in given
    } | {n: given[n] for n, v in service.get("environment", {}).items() if v is None and n in given}
