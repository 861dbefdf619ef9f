"""Why a receiver refuses a request, and the answer to each reason."""

from enum import StrEnum
from http import HTTPStatus


class PushRefusal(StrEnum):
    """The reasons, as metrics name them."""

    SIGNATURE = "signature"  # given twice, or of no known secret
    UNSIGNED = "unsigned"  # no signature in the expected header
    SOURCE = "source"  # not from an allowed network
    HOST = "host"  # addressed by a name that another site may have pointed here
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

    def __init__(self, reason: PushRefusal, text: str) -> None:
        super().__init__(text)
        self.reason = reason


STATUS = {
    PushRefusal.SIGNATURE: HTTPStatus.FORBIDDEN,
    PushRefusal.UNSIGNED: HTTPStatus.FORBIDDEN,
    PushRefusal.SOURCE: HTTPStatus.FORBIDDEN,
    PushRefusal.HOST: HTTPStatus.MISDIRECTED_REQUEST,
    PushRefusal.TOO_LARGE: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    PushRefusal.TOO_SLOW: HTTPStatus.REQUEST_TIMEOUT,
    PushRefusal.HEADERS_TOO_LARGE: HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    PushRefusal.INCOMPLETE: HTTPStatus.BAD_REQUEST,
    PushRefusal.OVERLOADED: HTTPStatus.SERVICE_UNAVAILABLE,
    PushRefusal.NOT_STORED: HTTPStatus.SERVICE_UNAVAILABLE,
    PushRefusal.PATH: HTTPStatus.NOT_FOUND,
    PushRefusal.METHOD: HTTPStatus.METHOD_NOT_ALLOWED,
}

RETRY_AFTER_SECONDS = {PushRefusal.OVERLOADED: 1, PushRefusal.NOT_STORED: 5}
"""When the sender of a refused message may try again."""
