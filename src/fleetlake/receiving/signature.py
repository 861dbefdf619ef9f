"""The signature of a pushed message (service contract, Signing of pushed messages).

`X-PORTAL-Signature` is the hex digest of the SHA-256 HMAC of the body, keyed with the secret of the
destination. An empty body is signed as a single space.
"""

import hmac
from collections.abc import Sequence

SIGNATURE_HEADER = b"x-portal-signature"
EMPTY_BODY = b" "

_HEX_DIGITS = 64


def signature_in(headers: Sequence[tuple[bytes, bytes]]) -> bytes | None:
    """Return the signature that a request carries; None without one, or with several.

    Names of headers are in lower case, as ASGI has them.
    """
    found = [value for name, value in headers if name == SIGNATURE_HEADER]
    if len(found) != 1:
        return None
    signature = found[0].strip().lower()
    is_digest = len(signature) == _HEX_DIGITS and not signature.strip(b"0123456789abcdef")
    return signature if is_digest else None


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
