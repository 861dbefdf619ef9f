"""An account of the service: the name of its profile, and its keys.

Keys are `SecretStr`: they print as stars.
"""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr

DEFAULT_PROFILE = "default"
"""Profile of the rows read with the main keys, unless FLEETLAKE_PROFILE names another."""


def _header_value(value: SecretStr) -> SecretStr:
    text = value.get_secret_value().strip()
    if not (text.isascii() and text.isprintable()):
        raise ValueError("contains characters that an HTTP header cannot carry")
    return SecretStr(text)


HeaderValue = Annotated[SecretStr, AfterValidator(_header_value)]


class Account(BaseModel):
    """The keys of an additional account, and its own limits where they differ."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    portal_api_id: HeaderValue
    portal_api_key: HeaderValue
    mgr_api_id: HeaderValue
    mgr_api_key: HeaderValue
    v3_token: HeaderValue = SecretStr("")
    calls_per_minute: int | None = Field(None, ge=0)
    calls_per_day: int | None = Field(None, ge=0)


def stream_name(endpoint: str, profile: str) -> str:
    """Return the name of a stream, with its account unless that is the default one.

    >>> stream_name("alerts", "default"), stream_name("alerts", "west")
    ('alerts', 'alerts of west')
    """
    return endpoint if profile == DEFAULT_PROFILE else f"{endpoint} of {profile}"
