"""The settings: names, types, defaults, and what each is.

Keys are `SecretStr`: they print as stars, and only the client and the call limit read their text.
"""

import re
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from platformdirs import user_state_path
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SecretStr,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    DotEnvSettingsSource,
    InitSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from fleetlake.account import DEFAULT_PROFILE, Account, HeaderValue
from fleetlake.errors import SettingsError
from fleetlake.lake_address import LakeAddress, parse_lake_address
from fleetlake.machine.loopback import is_loopback, shows_keys
from fleetlake.machine.project import in_project
from fleetlake.machine.setting_files import VARS, env_file, read_settings_file
from fleetlake.machine.umask import DEFAULT_UMASK, umask_text
from fleetlake.settings.maintenance_window import MaintenanceWindow
from fleetlake.settings.name_lists import Names, listed
from fleetlake.settings.notify_rule import NotifyRule
from fleetlake.settings.vendor_words import (
    KEY_HEADERS,
    VendorWords,
    checked_vendor_words,
    read_vendor_words,
)

ExportMode = Literal["history", "soft_delete"]
"""How an export target holds a list that the lake keeps as history."""


class ClockTrust(StrEnum):
    """Which clocks a load trusts."""

    CHECKED = "checked"  # the earlier of the service's clock and this machine's
    SERVICE = "service"  # only the service's


def in_project_folder(value: object) -> object:
    """Return a relative folder as one below the project; URLs and other values as they are."""
    if isinstance(value, str) and "://" not in value:
        return str(in_project(Path(value)))
    return in_project(value) if isinstance(value, Path) else value


def vendor_table(value: object) -> object:
    """Return the table of the vendor's words in a file, which may be named from the project."""
    return read_vendor_words(in_project_folder(value) if value else value)


def memory_size(value: str) -> str:
    """Return the text of a size. Raises: ValueError if it is none.

    >>> memory_size(" 8GB ")
    '8GB'
    """
    if not re.fullmatch(r"(?i)\d+(\.\d+)?\s*[kmgt]i?b", value.strip()):
        raise ValueError("must be a size, such as 1500MB or 8GB")
    return value.strip()


def root_url(value: str) -> str:
    """Return the root URL of a service. Raises: ValueError if it is none, or has more parts.

    >>> root_url("https://host/api/v2/")
    'https://host/api/v2/'
    """
    parts = urlsplit(value.strip())
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.port == 0:
        raise ValueError("must be an http or https address")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("must not contain a user, password, query or fragment")
    return f"{parts.scheme}://{parts.netloc}{parts.path}"


KEY_SETTINGS = ("portal_api_id", "portal_api_key", "mgr_api_id", "mgr_api_key")
WRONG_KEYS = (
    f"Check {', '.join(f'FLEETLAKE_{name.upper()}' for name in KEY_SETTINGS)}: the service does "
    "not say which of them is wrong."
)

SECRET_SETTINGS = frozenset(
    {*KEY_SETTINGS, "v3_token", "service_tokens", "dashboard_token", "mcp_token", "push_secrets"}
)
"""Settings that are secrets; others, such as an address, may contain one."""

DAY_ROWS = 100_000
"""Smaller files cost more to open than they save."""

BUILD_MEMORY = "1500MB"

PROFILE_NAME = "^[a-z0-9_-]+$"

PREFIX = "FLEETLAKE_"


ProjectPath = Annotated[Path, AfterValidator(in_project_folder)]


class Settings(BaseSettings):
    """Everything that differs between installations."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_nested_delimiter="__",
        dotenv_filtering="match_prefix",
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
    )

    vendor_words: Annotated[
        dict[str, Any],
        NoDecode,
        BeforeValidator(vendor_table),
        AfterValidator(checked_vendor_words),
    ] = Field({}, description="TOML file of the vendor's words for those of the service contract")
    base_url: str | None = Field(
        None, validate_default=True, description="Root URL of v2, e.g. https://host/api/v2/"
    )
    v3_base_url: str | None = Field(
        None, validate_default=True, description="Root URL of v3, without a trailing slash"
    )
    portal_api_id: HeaderValue = Field(SecretStr(""), description="Id of the usage-tracking key")
    portal_api_key: HeaderValue = Field(SecretStr(""), description="Usage-tracking key")
    mgr_api_id: HeaderValue = Field(SecretStr(""), description="Id of the authorizing key")
    mgr_api_key: HeaderValue = Field(SecretStr(""), description="Authorizing key")
    v3_token: HeaderValue = Field(SecretStr(""), description="Bearer token for v3")
    service_tokens: dict[str, HeaderValue] = Field(
        {},
        description="Bearer token of another service whose lists the project describes, e.g. "
        "FLEETLAKE_SERVICE_TOKENS__TICKETS",
    )
    profile: str = Field(
        DEFAULT_PROFILE,
        pattern=PROFILE_NAME,
        description="Value of `account_profile` in rows read with the keys above",
    )
    profiles: dict[str, Account] = Field(
        default_factory=dict,
        description="Additional accounts, as FLEETLAKE_PROFILES__<NAME>__<KEY>; same keys as above",
    )
    lake_files: Annotated[str | None, AfterValidator(in_project_folder)] = Field(
        None, description="Location of a shared lake's files: a folder, or s3://bucket/prefix"
    )
    lake: Annotated[LakeAddress, AfterValidator(in_project_folder)] = Field(
        Path("data/lake"), description="Folder of the lake, or postgres:ADDRESS for a shared lake"
    )
    build_memory: Annotated[str, AfterValidator(memory_size)] = Field(
        BUILD_MEMORY,
        description="Memory limit of DuckDB in a build, e.g. 8GB; larger data spills to disk",
    )
    build_on: str = Field(
        "",
        pattern=r"^[A-Za-z0-9_]*$",
        description="Engine that builds the marts: an output of profiles.yml, e.g. spark. By "
        "default DuckDB on this machine",
    )
    build_storage: ProjectPath | None = Field(
        None, description="Folder that the engine in `build_on` shares with this machine"
    )
    published: ProjectPath = Field(
        Path("data/published"), description="Folder for published snapshots"
    )
    published_day_rows: int = Field(
        DAY_ROWS,
        ge=0,
        description="Rows per day above which a published mart is partitioned by date; 0: never",
    )
    published_coarse: bool = Field(
        default=False, description="Publish places rounded to 100 m, without names"
    )
    publish_raw: Names = Field(
        (), description="Raw tables to publish too, as raw_<endpoint>, e.g. alerts,routers"
    )
    reports: ProjectPath = Field(Path("data/reports"), description="Folder for scheduled reports")
    retention: dict[str, Annotated[int, Field(gt=0)]] = Field(
        {}, description="Days to keep rows, e.g. FLEETLAKE_RETENTION__HISTORICAL_LOCATIONS=90"
    )
    freshness: dict[str, Annotated[float, Field(ge=0, le=24)]] = Field(
        {},
        description="Hours after which a list that is read device by device asks each device "
        "again, e.g. FLEETLAKE_FRESHNESS__ROUTER_LOGS=1, up to 24 (0 asks at each load). By "
        "default 6 for `router_logs` and `historical_locations`, and 1 for samples",
    )
    group_freshness: dict[str, Annotated[float, Field(ge=0, le=24)]] = Field(
        {},
        description="Hours for the devices of a group in all these lists, by its name in any case, "
        "e.g. FLEETLAKE_GROUP_FRESHNESS__AMBULANCES=1",
    )
    exports: dict[str, SecretStr] = Field(
        {}, description="Address of an export target, e.g. FLEETLAKE_EXPORTS__POSTGRES"
    )
    export_modes: dict[str, ExportMode] = Field(
        {},
        description="How exports hold a list that the lake keeps as history, by endpoint, e.g. "
        "FLEETLAKE_EXPORT_MODES__ROUTERS=soft_delete; `history` is the default",
    )
    maintenance: dict[str, MaintenanceWindow] = Field(
        {},
        description="Times in which trouble is expected, as FLEETLAKE_MAINTENANCE__<NAME>__<KEY>: "
        "HOURS (22-4), GROUPS, PLACES, DAYS (sat,sun), FIRST_DAY, LAST_DAY, TIME_ZONE. Findings "
        "are snoozed until the end",
    )
    notify: dict[str, NotifyRule] = Field(
        {},
        description="Addresses for messages about findings, as FLEETLAKE_NOTIFY__<NAME>__<KEY>: "
        "URL (an address as Apprise writes it), SEVERITY, REASONS, GROUPS, WAIT_MINUTES, "
        "AGAIN_HOURS, DIGEST_HOURS, QUIET, TIME_ZONE",
    )
    csv_guard: bool = Field(
        default=False,
        description="Put ' before CSV values that a spreadsheet would run as a formula",
    )
    push_secrets_file: ProjectPath = Field(
        Path("data/push-secrets"),
        description="File of secrets that sign pushed alerts, one per line, mode 600",
    )
    dashboard_token: SecretStr | None = Field(
        None, description="Token for reading the dashboard from other machines"
    )
    mcp_token: SecretStr | None = Field(
        None, description="Token for assistants that ask over HTTP (`fleetlake mcp --http`)"
    )
    dashboard_tiles: ProjectPath | None = Field(
        None, description="PMTiles file that the dashboard's map draws under the points"
    )
    busy_wait: int = Field(
        600,
        ge=0,
        description="Seconds that maintain, repair and erase wait for running loads and backups",
    )
    state: ProjectPath = Field(
        default_factory=lambda: user_state_path("fleetlake"),
        description="Folder of what this user's processes share: call limit, statements of builds",
    )
    umask: Annotated[str, AfterValidator(umask_text)] = Field(
        DEFAULT_UMASK,
        description="Octal umask of written files; 027 shares published files with your group",
    )
    calls_per_minute: int = Field(450, ge=0, description="Maximum calls per minute; 0: no limit")
    calls_per_day: int = Field(0, ge=0, description="Maximum calls per day (UTC); 0: no limit")
    shrink_pct: int = Field(
        50, ge=0, le=100, description="Percent of a list that may disappear without confirmation"
    )
    concurrency: int = Field(8, ge=1, le=64, description="Maximum concurrent calls")
    header_names: Annotated[tuple[str, str, str, str] | None, NoDecode, BeforeValidator(listed)] = (
        Field(
            None,
            description="Deprecated: names of the four key headers; use FLEETLAKE_VENDOR_WORDS",
        )
    )
    push_secrets: Annotated[tuple[SecretStr, ...], NoDecode, BeforeValidator(listed)] = Field(
        (), description="Secrets of push destinations, comma-separated"
    )
    push_journal: ProjectPath = Field(
        Path("data/push-journal"),
        description="Folder that keeps pushed messages until they are in the lake",
    )
    push_sources: Annotated[
        tuple[IPv4Network | IPv6Network, ...], NoDecode, BeforeValidator(listed)
    ] = Field((), description="Networks that may push, e.g. 192.0.2.0/24,198.51.100.7; empty: all")
    receiver_names: Names = Field(
        (),
        description="Host names by which Prometheus asks the receiver for `/metrics`; "
        "IP addresses and names without a dot always work",
    )
    alert_events: Names = Field(
        (),
        description="Alert types, or groups of types, of which Prefect gets an event, "
        "e.g. failover,battery",
    )
    push_megabytes: int = Field(1, ge=1, le=64, description="Maximum size of a push, in MB")
    clock: ClockTrust = Field(
        ClockTrust.CHECKED,
        description="`checked`: load up to the earlier of the service's clock and this machine's; "
        "`service`: trust only the service's, for simulators and replays",
    )
    plain_http: bool = Field(
        default=False, description="Allow plain http to other machines, which exposes the keys"
    )
    timeout_seconds: float = Field(
        30.0,
        gt=0,
        description="Maximum seconds without data; a whole response may take 4 times that",
    )
    answer_megabytes: int = Field(
        64, ge=1, le=1024, description="Maximum uncompressed size of a response, in MB"
    )
    retry_seconds: float = Field(
        300.0, ge=0, description="Maximum seconds per page, over all attempts"
    )
    retry_attempts: int = Field(12, ge=1, description="Maximum attempts per page")

    @field_validator("lake", mode="before")
    @classmethod
    def _is_lake_address(cls, value: object, given: ValidationInfo) -> object:
        return (
            parse_lake_address(value, given.data.get("lake_files"))
            if isinstance(value, str)
            else value
        )

    @field_validator("header_names")
    @classmethod
    def _agrees(cls, value: tuple[str, ...] | None, given: ValidationInfo) -> Any:
        words = given.data.get("vendor_words", {})
        names = dict(zip(KEY_HEADERS, value, strict=True)) if value else {}
        if any(words.get(name, word) != word for name, word in names.items()):
            raise ValueError("names other headers than FLEETLAKE_VENDOR_WORDS")
        checked_vendor_words({**words, **names})
        return value

    @field_validator("base_url", "v3_base_url")
    @classmethod
    def _is_root(cls, value: str | None, given: ValidationInfo) -> str | None:
        if value is None:
            value = given.data.get("vendor_words", {}).get(given.field_name)
        return None if value is None else root_url(value)

    @model_validator(mode="after")
    def _sends_no_key_in_the_clear(self) -> Self:
        roots = {"FLEETLAKE_BASE_URL": self.base_url, "FLEETLAKE_V3_BASE_URL": self.v3_base_url}
        plain = [name for name, root in roots.items() if root and shows_keys(root)]
        if plain and not self.plain_http:
            raise ValueError(
                f"{' and '.join(plain)}: plain http exposes the keys to the network; "
                "use https, or set FLEETLAKE_PLAIN_HTTP=true if you trust the network"
            )
        return self

    @property
    def words(self) -> VendorWords:
        """The vendor's words, those of the deprecated `header_names` among them."""
        names = zip(KEY_HEADERS, self.header_names or KEY_HEADERS, strict=True)
        return VendorWords({**dict(names), **self.vendor_words})

    def is_on_this_machine(self) -> bool:
        """Return whether the service runs on this machine: all its addresses are loopback."""
        roots = [root for root in (self.base_url, self.v3_base_url) if root]
        return bool(roots) and all(map(is_loopback, roots))

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the hook's signature
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - likewise
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Read arguments, then the environment, then `.env`, then `fleetlake.toml`."""
        in_env = DotEnvSettingsSource(settings_cls, env_file=env_file())
        in_toml = {k: v for k, v in read_settings_file().items() if k != VARS}
        return init_settings, env_settings, in_env, InitSettingsSource(settings_cls, in_toml)

    def accounts(self) -> list["Settings"]:
        """Return the settings of each account to read: the main account first, then the profiles.

        Without keys of its own, the main account is left out.
        """
        named = [self.account(name) for name in self.profiles]
        own = self.model_copy(update={"profiles": {}})
        has_own = any(getattr(self, name).get_secret_value() for name in KEY_SETTINGS)
        return [own, *named] if has_own or not named else named

    def daily_budgets(self) -> dict[str, int]:
        """Return the maximum calls per day of each account profile; 0 means unlimited."""
        return {account.profile: account.calls_per_day for account in self.accounts()}

    def account(self, name: str) -> "Settings":
        """Return the settings of one account. Raises: SettingsError listing the profiles."""
        if name == self.profile:
            return self.model_copy(update={"profiles": {}})
        if name not in self.profiles:
            raise SettingsError(
                f"There is no profile {name!r}.",
                remedy=f"The profiles are: {', '.join([self.profile, *self.profiles])}. "
                "To define one, set FLEETLAKE_PROFILES__<NAME>__<KEY> for each of its four keys.",
            )
        own = {k: v for k, v in self.profiles[name] if v is not None}
        return self.model_copy(update={**own, "profile": name, "profiles": {}})

    def keys(self) -> dict[str, str]:
        """Return the four key headers with their secret values.

        Raises: SettingsError naming the missing keys.
        """
        values = [getattr(self, name).get_secret_value() for name in KEY_SETTINGS]
        missing = [n for n, v in zip(KEY_SETTINGS, values, strict=True) if not v]
        if missing:
            names = ", ".join(f"FLEETLAKE_{name.upper()}" for name in missing)
            raise SettingsError(
                f"The service's keys are not set: {names}.",
                remedy="Export them, or try `fleetlake demo`, which starts a simulated service.",
            )
        return dict(zip(map(self.words.header, KEY_HEADERS), values, strict=True))

    def v3_root(self) -> str | None:
        """Return the v3 root, or None if v3 is not configured."""
        if self.v3_base_url is None or not self.v3_token.get_secret_value():
            return None
        return f"{self.v3_base_url.rstrip('/')}/"

    def service_root(self) -> str:
        """Return the v2 root. Raises: SettingsError when it is not set."""
        if self.base_url is None:
            raise SettingsError(
                "FLEETLAKE_BASE_URL is not set.",
                remedy="Export it, e.g. https://host/api/v2/, or try `fleetlake demo`.",
            )
        return self.base_url if self.base_url.endswith("/") else f"{self.base_url}/"
