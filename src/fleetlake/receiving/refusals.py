"""Why a receiver refuses a request, and the answer to each reason."""

from enum import StrEnum
from http import HTTPStatus


class Refusal(StrEnum):
    """The reasons, as metrics name them."""

    SIGNATURE = "signature"  # missing, given twice, or of no known secret
    SOURCE = "source"  # not from an allowed network
    TOO_LARGE = "too_large"
    TOO_SLOW = "too_slow"
    HEADERS_TOO_LARGE = "headers_too_large"
    INCOMPLETE = "incomplete"  # the sender left before the end of its message
    OVERLOADED = "overloaded"  # too much waits for memory or for the disk
    NOT_STORED = "not_stored"  # the disk is full or broken, or the receiver is stopping
    PATH = "path"
    METHOD = "method"


class Refused(Exception):
    """A request is refused. The text says why, for the sender."""

    def __init__(self, reason: Refusal, text: str) -> None:
        super().__init__(text)
        self.reason = reason


STATUS = {
    Refusal.SIGNATURE: HTTPStatus.FORBIDDEN,
    Refusal.SOURCE: HTTPStatus.FORBIDDEN,
    Refusal.TOO_LARGE: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    Refusal.TOO_SLOW: HTTPStatus.REQUEST_TIMEOUT,
    Refusal.HEADERS_TOO_LARGE: HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    Refusal.INCOMPLETE: HTTPStatus.BAD_REQUEST,
    Refusal.OVERLOADED: HTTPStatus.SERVICE_UNAVAILABLE,
    Refusal.NOT_STORED: HTTPStatus.SERVICE_UNAVAILABLE,
    Refusal.PATH: HTTPStatus.NOT_FOUND,
    Refusal.METHOD: HTTPStatus.METHOD_NOT_ALLOWED,
}

RETRY_AFTER_SECONDS = {Refusal.OVERLOADED: 1, Refusal.NOT_STORED: 5}
"""When the sender of a refused message may try again."""
