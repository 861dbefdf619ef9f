"""Settings: read once, immutable, and without secrets in their output."""

from pathlib import Path

import pytest

from fleetlake.errors import SettingsError
from fleetlake.settings import ClockTrust, Settings, load_settings, unknown_variables

KEYS = {
    "FLEETLAKE_PORTAL_API_ID": "PORTALID-1f0c",
    "FLEETLAKE_PORTAL_API_KEY": "PORTALKEY-77aa41",
    "FLEETLAKE_MGR_API_ID": "MGRID-9d",
    "FLEETLAKE_MGR_API_KEY": "MGRKEY-b04ce1a2",
}


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read settings again, from a folder without a settings file."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)


def failure_of_loading() -> str:
    with pytest.raises(SettingsError) as failure:
        load_settings()
    return str(failure.value)


@pytest.mark.usefixtures("default_folders")
def test_the_defaults_apply_without_any_setting():
    settings = load_settings()

    assert settings.base_url is None
    assert settings.lake == Path("data/lake")
    assert settings.published == Path("data/published")
    assert settings.calls_per_minute == 450
    assert settings.header_names is None
    assert settings.clock is ClockTrust.CHECKED


def test_the_file_is_read_and_the_environment_takes_precedence(monkeypatch):
    Path("fleetlake.toml").write_text("calls_per_minute = 7\nconcurrency = 3\n")
    monkeypatch.setenv("FLEETLAKE_CONCURRENCY", "5")

    settings = load_settings()

    assert (settings.calls_per_minute, settings.concurrency) == (7, 5)


@pytest.mark.parametrize(
    "name",
    [name for name, field in Settings.model_fields.items() if "; 0: " in str(field.description)],
)
def test_a_setting_whose_description_gives_zero_a_meaning_takes_zero(monkeypatch, name):
    monkeypatch.setenv(f"FLEETLAKE_{name.upper()}", "0")

    assert getattr(load_settings(), name) == 0


def test_a_root_url_without_a_slash_gets_one(monkeypatch):
    monkeypatch.setenv("FLEETLAKE_BASE_URL", "https://svc.example/api/v2")

    assert load_settings().service_root() == "https://svc.example/api/v2/"


@pytest.mark.parametrize(
    "url",
    [
        "svc.example/api/v2/",
        "ftp://svc.example/",
        "https://",
        "https:///api/v2/",
        "https://user:secretword@svc.example/",
        "https://svc.example/?key=secretword",
        "https://svc.example/#secretword",
        "https://svc.example:99999/",
        "https://svc.example:x/",
        "https://[::1/",
        "",
    ],
)
def test_an_invalid_root_url_is_refused_by_setting_name_and_not_shown(monkeypatch, url):
    monkeypatch.setenv("FLEETLAKE_BASE_URL", url)

    reported = failure_of_loading()

    assert reported.startswith("Invalid settings: FLEETLAKE_BASE_URL: ")
    assert "Value error" not in reported  # the prefix that pydantic would add
    assert "secretword" not in reported


@pytest.mark.parametrize("name", ["FLEETLAKE_BASE_URL", "FLEETLAKE_V3_BASE_URL"])
def test_plain_http_is_allowed_for_this_machine_only(monkeypatch, name):
    monkeypatch.setenv("FLEETLAKE_BASE_URL", "https://svc.example/api/v2/")
    monkeypatch.setenv(name, "http://svc.example/api/")

    reported = failure_of_loading()

    assert reported.startswith(f"Invalid settings: {name}: plain http")
    assert "use https" in reported


@pytest.mark.parametrize("host", ["127.0.0.1:8700", "localhost:8700", "[::1]:8700", "127.1.2.3"])
def test_plain_http_reaches_this_machine(monkeypatch, host):
    monkeypatch.setenv("FLEETLAKE_BASE_URL", f"http://{host}/api/v2/")

    assert load_settings().service_root() == f"http://{host}/api/v2/"


@pytest.mark.parametrize("host", ["127.0.0.1.evil.example", "localhost.evil.example", "0.0.0.0"])
def test_a_host_that_only_looks_like_this_machine_is_remote(monkeypatch, host):
    monkeypatch.setenv("FLEETLAKE_BASE_URL", f"http://{host}/api/v2/")

    assert failure_of_loading()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CALLS_PER_MINUTE", "-1"),
        ("CALLS_PER_MINUTE", "many"),
        ("CONCURRENCY", "0"),
        ("CONCURRENCY", "1000"),
        ("HEADER_NAMES", "X-A,X-B"),
        ("TIMEOUT_SECONDS", "0"),
        ("RETRY_ATTEMPTS", "0"),
        ("BUILD_MEMORY", "8"),
        ("BUILD_MEMORY", "plenty"),
    ],
)
def test_an_invalid_value_is_refused_with_the_settings_name(monkeypatch, name, value):
    monkeypatch.setenv(f"FLEETLAKE_{name}", value)

    reported = failure_of_loading()

    assert f"FLEETLAKE_{name}" in reported
    assert "fleetlake.toml" in reported


def test_all_invalid_settings_are_named_at_once(monkeypatch):
    monkeypatch.setenv("FLEETLAKE_CONCURRENCY", "0")
    monkeypatch.setenv("FLEETLAKE_BASE_URL", "nowhere")

    reported = failure_of_loading()

    assert "FLEETLAKE_CONCURRENCY" in reported
    assert "FLEETLAKE_BASE_URL" in reported


@pytest.mark.parametrize(
    "content", [b"calls_per_minute = ", b"no_such_setting = 1", b"concurrency = 'x'", b"\xff\xfe"]
)
def test_an_unusable_settings_file_is_a_clear_error(content):
    Path("fleetlake.toml").write_bytes(content)

    assert failure_of_loading()


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("bad", ["SECRETWORD\nX", "SECRETWORD\tX", "SECRETWORDé", "S\u2028X"])
@pytest.mark.usefixtures("_keys")
def test_a_key_that_a_header_cannot_contain_is_refused_without_being_shown(monkeypatch, name, bad):
    monkeypatch.setenv(name, bad)

    reported = failure_of_loading()

    assert name in reported
    assert "SECRETWORD" not in reported


@pytest.mark.usefixtures("_keys")
def test_blanks_around_a_key_are_not_part_of_it(monkeypatch):
    monkeypatch.setenv("FLEETLAKE_MGR_API_KEY", " MGRKEY-b04ce1a2\n")

    assert load_settings().keys()["X-MGR-API-KEY"] == "MGRKEY-b04ce1a2"


@pytest.mark.parametrize("missing", KEYS)
@pytest.mark.usefixtures("_keys")
def test_a_missing_key_is_named_and_the_others_are_not_shown(monkeypatch, missing):
    monkeypatch.delenv(missing)

    with pytest.raises(SettingsError) as failure:
        load_settings().keys()

    reported = str(failure.value)
    assert missing in reported
    assert not any(value in reported for value in KEYS.values())
    assert not any(name in reported for name in KEYS if name != missing)


def test_a_missing_root_url_is_named():
    with pytest.raises(SettingsError, match="FLEETLAKE_BASE_URL"):
        load_settings().service_root()


@pytest.mark.usefixtures("_keys")
def test_keys_are_masked_when_settings_are_printed_or_dumped():
    settings = load_settings()

    shown = [repr(settings), str(settings), settings.model_dump_json(), str(settings.model_dump())]

    assert not any(value in text for value in KEYS.values() for text in shown)


def test_a_shared_lake_without_a_file_location_is_refused_without_showing_its_password(monkeypatch):
    monkeypatch.setenv("FLEETLAKE_LAKE", "postgres:host=db password=hunter2")

    with pytest.raises(SettingsError, match="FLEETLAKE_LAKE_FILES") as refused:
        load_settings()
    assert "hunter2" not in str(refused.value)
    monkeypatch.setenv("FLEETLAKE_LAKE_FILES", "s3://fleet/lake")
    load_settings.cache_clear()
    assert "hunter2" not in f"{load_settings()!r} {load_settings().lake}"


def test_the_address_of_an_export_target_is_a_secret(monkeypatch):
    monkeypatch.setenv("FLEETLAKE_EXPORTS__POSTGRES", "postgresql://fleet:hunter2@db/fleet")

    settings = load_settings()

    assert "hunter2" not in repr(settings)
    assert settings.exports["postgres"].get_secret_value().endswith("hunter2@db/fleet")


def test_an_unknown_key_is_reported_as_a_key_of_the_file():
    Path("fleetlake.toml").write_text("base_ulr = 1")

    reported = failure_of_loading()

    assert "fleetlake.toml: there is no setting base_ulr (base_url?)" in reported
    assert "FLEETLAKE_BASE_ULR" not in reported


DEEP = {
    "lists": "a = " + "[" * 5_000 + "]" * 5_000,
    "tables": "a = " + "{b=" * 3_000 + "1" + "}" * 3_000,
    "dotted names": f"vars{'.a' * 3_000} = 1",
    "profiles": f"profiles{'.a' * 3_000} = 1",
}


@pytest.mark.parametrize("content", DEEP.values(), ids=DEEP)
def test_a_deep_settings_file_is_an_error_that_names_it(content):
    Path("fleetlake.toml").write_text(content)

    assert "fleetlake.toml has more than 20 levels" in failure_of_loading()


@pytest.mark.parametrize("name", ["fleetlake.toml", ".env"])
def test_a_settings_file_without_end_is_not_read(name):
    Path("fleetlake.toml").touch()
    Path(name).write_text("FLEETLAKE_PROFILE = 'x'\n" + "#" * 2**20)

    assert f"{name} is larger than 1 MB" in failure_of_loading()


@pytest.mark.parametrize(
    ("content", "fault"),
    [("/dev/zero", "is larger than 1 MB"), (DEEP["lists"], "has more than 20 levels")],
    ids=["endless", "deep"],
)
def test_a_file_of_words_that_is_large_or_deep_is_an_error_that_names_it(
    monkeypatch, content, fault
):
    Path("words.toml").write_text(content)
    name = content if content.startswith("/") else "words.toml"
    monkeypatch.setenv("FLEETLAKE_VENDOR_WORDS", name)

    assert f"{name} {fault}" in failure_of_loading()


def test_an_error_inside_a_profile_names_the_profile_and_the_key():
    Path("fleetlake.toml").write_text('[profiles.north]\nmgr_api_ky = "x"')

    reported = failure_of_loading()

    assert "FLEETLAKE_PROFILES__NORTH__MGR_API_KEY: Field required" in reported
    assert "FLEETLAKE_PROFILES__NORTH__MGR_API_KY: Extra inputs are not permitted" in reported


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("FLEETLAKE_BASE_ULR", "FLEETLAKE_BASE_URL"),
        ("FLEETLAKE_MGR_APIKEY", "FLEETLAKE_MGR_API_KEY"),
        ("FLEETLAKE_PROFILE__WEST__MGR_API_ID", "FLEETLAKE_PROFILES__WEST__MGR_API_ID"),
        ("FLEETLAKE_EXPORT__POSTGRES", "FLEETLAKE_EXPORTS__POSTGRES"),
        ("FLEETLAKE_HOME", None),
    ],
)
def test_an_unknown_variable_is_reported_with_the_nearest_setting(name, meant):
    assert list(unknown_variables(["PATH", name])) == [(name, meant)]


def test_no_setting_is_reported_as_an_unknown_variable():
    names = [f"FLEETLAKE_{name.upper()}" for name in Settings.model_fields]
    names += ["fleetlake_base_url", "FLEETLAKE_PROFILES__WEST__MGR_API_ID"]
    names += ["FLEETLAKE_EXPORTS__POSTGRES", "FLEETLAKE_BUILD_FILE", "FLEETLAKE_SPARK_PYTHON"]

    assert list(unknown_variables(names)) == []


@pytest.mark.parametrize(
    ("v2", "v3", "is_here"),
    [
        ("http://127.0.0.1:1/api/v2/", None, True),
        (None, "http://[::1]:1/api/v3", True),
        ("http://127.0.0.1:1/api/v2/", "https://service.example/api/v3", False),
        (None, None, False),
    ],
)
def test_a_service_is_on_this_machine_if_each_of_its_addresses_is(v2, v3, is_here):
    assert Settings(base_url=v2, v3_base_url=v3).is_on_this_machine() is is_here
