"""The commands print what is recorded: tables, JSON, CSV, advice and errors, on small lakes.

The sessions also end with what the lake's own tables hold: what the commands have recorded there.
"""

import json

import pytest

from tools.recorded.printed import PRINTED, SESSIONS, printed

RECORDED = json.loads(PRINTED.read_text(encoding="utf-8"))


@pytest.mark.proof
@pytest.mark.parametrize("name", SESSIONS)
def test_every_command_prints_what_is_recorded(tmp_path, name):
    found = printed(tmp_path, name)

    assert list(found) == list(RECORDED[name])
    for asked, said in found.items():
        for part, value in said.items():
            assert value == RECORDED[name][asked][part], f"{asked}: {part}"


def test_a_session_is_recorded_for_each_name():
    assert list(RECORDED) == list(SESSIONS)
