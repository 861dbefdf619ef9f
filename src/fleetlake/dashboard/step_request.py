"""A step about findings, as a browser sends it: who may send it, and what it holds. Pure."""

from datetime import timedelta
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from starlette.datastructures import Headers

from fleetlake.errors import UsageError
from fleetlake.marts.finding_states import LONGEST_COMMENT, MOST_AT_ONCE, FindingStep, NewStep

LARGEST = 200_000
"""Bytes of a request: the most findings at once, and a comment."""

_Name = Annotated[str, StringConstraints(strip_whitespace=True, max_length=80)]


class _Sent(BaseModel):
    model_config = ConfigDict(extra="forbid")

    finding_ids: Annotated[list[str], Field(min_length=1, max_length=MOST_AT_ONCE)]
    step: FindingStep
    by: Annotated[_Name, StringConstraints(min_length=1)]
    comment: Annotated[str, StringConstraints(max_length=LONGEST_COMMENT)] | None = None
    assignee: _Name | None = None
    hours: Annotated[float, Field(ge=0.25, le=24 * 366)] | None = None


def is_from_this_page(headers: Headers) -> bool:
    """Return whether a request is of our own page, or of a program: no other site may send one.

    A browser asks the server before it sends JSON from another site, and is refused.
    """
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    origin = headers.get("origin")
    is_own = origin is None or urlsplit(origin).netloc.lower() == headers.get("host", "").lower()
    # A reverse proxy may change the host; a browser says itself whose page it is.
    is_own = is_own or headers.get("sec-fetch-site") == "same-origin"
    return kind == "application/json" and is_own


def step_in(body: str) -> NewStep:
    """Return the step that a body asks for. Raises: UsageError."""
    try:
        sent = _Sent.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"])) or "the request"
        raise UsageError(f"{where}: {first['msg']}.") from None
    return NewStep(
        finding_ids=frozenset(sent.finding_ids),
        step=sent.step,
        actor=f"{sent.by} (dashboard)",
        comment=sent.comment or None,
        assignee=sent.assignee,
        until=timedelta(hours=sent.hours) if sent.hours else None,
    )
