"""The signature of a pushed message (service contract, Signing of pushed messages).

It is the hex digest of the SHA-256 HMAC of the body, keyed with the secret of the destination. An
empty body is signed as a single space. The header that has it is `X-PORTAL-Signature`, or what the
vendor's words call it.
"""

import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass

from fleetlake.receiving.push_refusals import PushRefusal, Refused

EMPTY_BODY = b" "

_DIGEST = re.compile(rb"[0-9a-fA-F]{64}")
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9a-z-]{1,64}")


@dataclass(frozen=True)
class Signature:
    """A signature, in lower case, and the header that has it if it is not the expected one."""

    digest: bytes
    other_header: str = ""


def signature_in(headers: Sequence[tuple[bytes, bytes]], expected: str) -> Signature:
    """Return the signature that a request carries. Names of headers are in lower case, as in ASGI.

    If the expected header is missing and another one has the form of a signature, that is returned:
    if it fits, the service has another name for the header. Raises: Refused.
    """
    found = [value for name, value in headers if name == expected.lower().encode()]
    if len(found) == 1 and _DIGEST.fullmatch(found[0].strip()):
        return Signature(found[0].strip().lower())
    if not found:
        others = [
            (b"signature" not in name, name, value)
            for name, value in headers
            if _NAME.fullmatch(name) and _DIGEST.fullmatch(value)
        ]
        for _, name, value in sorted(others)[:1]:
            return Signature(value.lower(), name.decode())
    raise Refused(
        PushRefusal.SIGNATURE if found else PushRefusal.UNSIGNED, f"one {expected} is needed"
    )


def is_signed(body: bytes, signature: bytes, secrets: Sequence[bytes]) -> bool:
    """Return whether one of the secrets gives this signature, in lower case.

    All secrets are compared, each in constant time, so that the time of the answer tells nothing.
    """
    signed = body or EMPTY_BODY
    matches = [
        hmac.compare_digest(hmac.digest(secret, signed, "sha256").hex().encode(), signature)
        for secret in secrets
    ]
    return any(matches)
