"""The simulator answers a conversation of every kind of request as it is recorded."""

import json
from typing import Any

import pytest

from tests.simulator.sections import section
from tools.recorded.conversation import CONVERSATION, READS, WRITES, conversation

RECORDED: dict[str, Any] = json.loads(CONVERSATION.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def heard() -> dict[str, Any]:
    return conversation()


@section("Simulator: determinism")
def test_every_request_is_answered_as_recorded(heard):
    differing = {asked: answer for asked, answer in heard.items() if answer != RECORDED.get(asked)}

    assert differing == {asked: RECORDED.get(asked) for asked in differing}
    assert list(heard) == list(RECORDED)


@section("Errors")
def test_a_conversation_has_requests_that_succeed_and_requests_of_every_refusal(heard):
    statuses = {answer["status"] for answer in heard.values()}

    assert statuses >= {200, 201, 202, 204, 400, 401, 403, 404, 405, 409}
    assert len(heard) > len(READS) + len(WRITES)
