"""Properties of every response, for any request (service contract, Errors)."""

import json
import signal
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import orjson
from starlette.applications import Starlette

from tests.support.asgi import Answer, Request, ask
from tests.support.fuzzing import JSON_TYPES, Fuzzer
from tests.support.service import JSON_API

HANG_S = 20


def complaint(request: Request, answer: Answer) -> str | None:
    """Return how a response violates the contract, or None."""
    if answer.status >= 500 and not _is_server_error(request, answer):
        return f"status {answer.status}"
    if answer.status >= 400 and request.method != "HEAD":
        return _error_shape(answer)
    if answer.status in (200, 201, 202) and answer.body[:1] in (b"{", b"["):
        try:
            answer.json()
        except ValueError as error:
            if "ndjson" not in answer.head.get("content-type", ""):
                return f"body is no JSON: {error}"
    if "ndjson" in answer.head.get("content-type", ""):
        for line in answer.body.splitlines():
            json.loads(line)
    return None


def _is_server_error(request: Request, answer: Answer) -> bool:
    """Return whether this is the contract's 500: a malformed JSON body."""
    try:
        orjson.loads(request.body)
    except orjson.JSONDecodeError:
        return answer.status == 500 and answer.json()["exception"]["type"] == "server_error"
    return False


def _error_shape(answer: Answer) -> str | None:
    """Return how an error's body differs from the contract's, or None."""
    if answer.head.get("content-type") not in JSON_TYPES:
        return f"status {answer.status} with content type {answer.head.get('content-type')}"
    body = answer.json()
    if answer.head["content-type"] == JSON_API:
        return None if set(body) == {"errors"} and body["errors"] else f"v3 body {body}"
    if answer.status == 401:
        wanted = {"status_code", "exception", "message", "success"}
        return None if set(body) == wanted else f"body {body}"
    if set(body) != {"errors", "exception"} or set(body["exception"]) != {"type", "message"}:
        return f"body {body}"
    if body["exception"]["type"] == "validation" and not body["errors"]:
        return "validation without a field"
    return None


@contextmanager
def no_longer_than(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in code that hangs: code that never awaits cannot be cancelled."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"no answer in {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


async def fuzz(app: Starlette, seed: int, count: int) -> list[str]:
    """Send `count` requests; return each finding with its request."""
    fuzzer, wrong = Fuzzer(seed), []
    for number in range(count):
        request = fuzzer.request()
        try:
            with no_longer_than(HANG_S):
                answer = await ask(app, request)
            found = complaint(request, answer)
            fuzzer.learn(request, answer)
        except Exception as error:  # noqa: BLE001 - every exception of the application is a finding
            found = "".join(traceback.format_exception(error)[-6:])
        if found is not None:
            wrong.append(f"{number}: {request}\n    {found}")
    return wrong
