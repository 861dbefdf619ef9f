"""What a response other than 200 says: its message, and the wait that it asks for."""

import email.utils
import json
from datetime import UTC, datetime, timedelta
from functools import lru_cache

import httpx

from fleetlake.endpoints.model import Api

MAX_SECONDS = 86_400


def is_v3_limit(response: httpx.Response, api: Api) -> bool:
    """Return whether a 409 means the call limit: in v3, one without a list of errors does."""
    if api is not Api.V3 or response.status_code != httpx.codes.CONFLICT:
        return False
    try:
        answer = response.json()
    except ValueError:
        return True
    return not (isinstance(answer, dict) and isinstance(answer.get("errors"), list))


def message_in(body: str) -> str:
    """Return the message in an error body, or the whole body if it has none."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return body.strip() or "an empty body"
    exception = answer.get("exception") if isinstance(answer, dict) else None
    if isinstance(exception, dict):
        errors = json.dumps(answer["errors"]) if answer.get("errors") else ""
        return f"{exception.get('message')} {errors}".strip()
    if isinstance(answer, dict) and (faults := _faults(answer.get("errors"))):
        return faults
    message = answer.get("message") if isinstance(answer, dict) else None
    return str(message or body)


def _faults(errors: object) -> str:
    """Return the texts of the errors that a JSON:API body lists; "" if it lists none."""
    if not isinstance(errors, list):
        return ""
    named = [e.get("detail") or e.get("title") for e in errors if isinstance(e, dict)]
    return "; ".join(str(name) for name in named if name)


def retry_after(response: httpx.Response) -> timedelta | None:
    """Return the wait that the service asks for, in seconds or as a date; None without one."""
    asked = response.headers.get("retry-after", "")
    if asked.isascii() and asked.isdigit():
        return timedelta(seconds=min(int(asked), MAX_SECONDS))
    moment = http_date(asked)
    return max(moment - datetime.now(UTC), timedelta(0)) if moment else None


@lru_cache(maxsize=8)  # the date of a service changes once a second, and parsing one takes 20 us
def http_date(header: str) -> datetime | None:
    """Return the instant of an HTTP date, or None if it is not a valid date."""
    try:
        moment = email.utils.parsedate_to_datetime(header)
    except (ValueError, OverflowError):  # a year or zone may have any number of digits
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
