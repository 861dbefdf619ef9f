"""The commands print what is recorded: tables, JSON, CSV, advice and errors on one small lake."""

import json

import pytest

from tests.printed import PRINTED, printed


@pytest.mark.proof
def test_every_command_prints_what_is_recorded(tmp_path):
    recorded = json.loads(PRINTED.read_text(encoding="utf-8"))

    found = printed(tmp_path)

    assert list(found) == list(recorded)
    for asked, said in found.items():
        for part, value in said.items():
            assert value == recorded[asked][part], f"{asked}: {part}"
