"""The keys of one account of the service. They are `SecretStr`: they print as stars."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr


def _header_value(value: SecretStr) -> SecretStr:
    text = value.get_secret_value().strip()
    if not (text.isascii() and text.isprintable()):
        raise ValueError("holds characters that no header can carry")
    return SecretStr(text)


HeaderValue = Annotated[SecretStr, AfterValidator(_header_value)]


class Account(BaseModel):
    """The keys of one more account, and its own limits where they differ."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    portal_api_id: HeaderValue
    portal_api_key: HeaderValue
    mgr_api_id: HeaderValue
    mgr_api_key: HeaderValue
    v3_token: HeaderValue = SecretStr("")
    calls_per_minute: int | None = Field(None, ge=0)
    calls_per_day: int | None = Field(None, ge=0)
