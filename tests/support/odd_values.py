"""Odd filter values, bodies and names, from which fuzzing.py draws."""

from typing import Any

from fleetsim.resources import RESOURCES

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "PURGE")
ROLES = ("admin", "full", "readonly", "diagnostic", "subaccount", "nobody", "")
OPERATORS = ("", "__in", "__gt", "__gte", "__lt", "__lte", "__isnull", "__exact", "__nonsense")
LONG = "x" * 5000

VALUES: tuple[str, ...] = (
    "", " ", "0", "1", "-1", "00", "+5", "1_0", "1.5", "1e9", "nan", "inf", "true", "FALSE", "null",
    "None", "\x00", "a\x00", "\x0c", "\n", "é", "\u0661\u0662", "\U0001f600", "\ufffd", "\ue009",
    "a,b", ",", ",,,", "9" * 18, "9" * 19, "9" * 40, "9" * 5000, str(2**62), str(2**63),
    str(-(2**63)),
    "1000003", "1000007", "1315765", "1000352", "5000011", "5002210", "900000001", "10157", "20003",
    ",".join(map(str, range(1000003, 1000104))), ",".join(map(str, range(101))), LONG,
    "../..", "%2b", "[", "]", "{}", "'", '"', "\\", "<script>", "online", "on", "wan", "mdm",
    "0001-01-01", "1582-10-15T00:00:00", "1969-12-31T23:59:59.999999+00:00", "1970-01-01",
    "2026-06-15T18:00:00+00:00", "2026-06-15 18:00", "2026-06-15T18:00:00Z", "2026-06-15T17:00",
    "2026-06-14T00:00:00.000001-23:59", "9999-12-31T23:59:59.999999-23:59", "10000-01-01",
    "9999-12-31", "2026-13-45", "20260615", "2026-W25-1", "24:00",
    "13814000-1dd2-11b2-8080-808080808080", "00000000-0000-1000-8000-000000000000",
    "ffffffff-ffff-1fff-7f7f-7f7f7f7f7f7f", "ffffffff-ffff-1fff-ffff-ffffffffffff",
    "6a28a000-e27e-11f1-acbe-5fb3d3f9bc85", "6a28a000-e27e-41f1-acbe-5fb3d3f9bc85",
    "{6a28a000e27e11f1acbe5fb3d3f9bc85}", "http://x/api/v2/routers/1000003/", "http://[",
)  # fmt: skip
"""Filter values, path keys and header values."""

SPECIAL = ("limit", "offset", "fields", "expand", "order_by", "format", "nonsense", "", "id__gt")


def nested(levels: int) -> list[Any]:
    """Return lists nested to a depth."""
    found: list[Any] = []
    for _ in range(levels):
        found = [found]
    return found


JSON_VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 1.5, -1e308, 2**53, 2**63, 2**64 - 1, 10**30, "", " ", "x", "\x00",
    "é\u2028", "\ue009", "null", LONG, [], {}, [[]], [{}], {"": {}}, {"a": [1, {"b": None}]}, ["x"],
    [1], [None], [True], [[1]], {"url": "http://["}, {"url": "http://xn--a/"},
    {"url": "http://a b/"},
    {"url": "ftp://a/"}, {"url": ""}, {"url": 5}, {"url": "https://receiver.test/" + LONG},
    {"url": "http://receiver.test/"}, {"secret": "s"}, {"secret": LONG}, {"secret": 1},
    {"secret": ""}, {"alert_type__in": [[]]}, {"alert_type__in": [{}]},
    {"alert_type__in": ["reboot_status_change"]},
    {"alert_type__in": ["pdp_router_overage"]}, {"alert_type__in": None}, {"alert_type__in": {}},
    {"external_id__in": [[]]}, {"external_id__in": 5}, {"alert_type__in": [], "other": 1},
    {"pdp_router_overage": {"carrier": [], "thresholds": [1]}}, {"pdp_router_overage": 5},
    {"pdp_router_overage": {"carrier": "Northcell", "thresholds": [[]]}},
    [{}, []], [{"a": {"b": 1}}, [["a", "b"]]], [{}, [[]]], [{}, ["a"]], [[], {}], [{}, [[1, "a"]]],
    "none", "Hourly", "daily", "manual", 90, 91, "10157", 10157, "1000003", 1000003, "46", "9003",
    "20003", 20003, 30011, "http://x/api/v2/accounts/10157/", "http://x/api/v2/groups/20003/",
    nested(90), nested(120), nested(300), {"a": nested(253)},
)  # fmt: skip
"""Members of bodies."""

MALFORMED = (
    b"", b" ", b"{", b"[", b"null", b"[]", b"[[]]", b"[{}]", b'"x"', b"5", b"{]", b'{"a":}',
    b"\xff\xfe",
    b'{"name": "\xed\xa0\x80"}', b'{"name": "\\ud800"}', b'{"name": NaN}', b'{"name": 1e999}',
    b'{"a": 1, "a": 2}', b"[" * 2000, b'{"a":' * 2000, b"\x00", b"{}{}", b"{}" + b" " * 100_000,
    b'{"name": "' + b"x" * 200_000 + b'"}', b"\xef\xbb\xbf{}", b"--boundary", b"a=b",
    b"[" * 1024 + b"]" * 1024, b"[" * 1025 + b"]" * 1025,
    b'{"name": ' + b"[" * 1000 + b"]" * 1000 + b"}",
    b'{"configuration": ' + b'{"a":' * 250 + b"1" + b"}" * 251,
    b'{"data": {"attributes": {"is_active": ' + b"[" * 900 + b"]" * 900 + b"}}}",
)  # fmt: skip

FIELDS = (
    "account", "name", "email", "username", "first_name", "last_name", "product", "target_firmware",
    "configuration", "router", "latitude", "longitude", "accuracy", "method", "altitude_meters",
    "endpoint", "authentication", "enabled", "suspended", "schedule", "filter_criteria", "settings",
    "http_destinations", "email_destinations", "associated_accounts", "associated_groups", "group",
    "description", "asset_id", "custom1", "custom2", "config", "destination_config_id", "id", "x",
)  # fmt: skip

GOOD_BODIES: dict[str, dict[str, Any]] = {
    "accounts": {"account": "10157", "name": "n"},
    "users": {"email": "a@b.example", "first_name": "a", "last_name": "b", "account": "10157"},
    "groups": {"name": "g", "product": "46", "target_firmware": "9003", "configuration": {}},
    "locations": {"router": "1000003", "latitude": 1, "longitude": 2, "account": "10157"},
    "routers": {"name": "n", "custom1": "c", "group": "20003", "description": None},
    "configuration_managers": {"configuration": [{"a": {"b": 1}}, [["c"]]], "suspended": True},
    "alert_push_destinations": {
        "name": "d", "endpoint": {"url": "http://receiver.test/"}, "enabled": True,
        "authentication": {"secret": "s"}, "suspended": False,
    },
    "alert_rules": {
        "schedule": None, "filter_criteria": {"alert_type__in": ["reboot_status_change"]},
        "http_destinations": [], "associated_accounts": [10157], "associated_groups": [],
        "email_destinations": [], "settings": None,
    },
    "speed_test": {"router": "1000003", "config": {}},
    "reboot_activity": {"router": "1000003"},
    "test_alert_push_destinations": {"destination_config_id": "x"},
}  # fmt: skip
V3_USER: dict[str, Any] = {
    "email": "v@3.example", "first_name": "v", "last_name": "3", "is_active": False, "timeout": 5,
    "pending_email": None,
}  # fmt: skip
RELATED = {"group": "groups", "account": "accounts", "router": "routers",
           "destination_config_id": "alert_push_destinations",
           "http_destinations": "alert_push_destinations", "associated_groups": "groups",
           "associated_accounts": "accounts", "email_destinations": "users"}  # fmt: skip
WRITES = (
    *(("POST", name) for name in GOOD_BODIES if name not in ("routers", "configuration_managers")),
    *(
        ("PUT", name)
        for name in ("accounts", "users", "groups", "routers", "configuration_managers")
    ),
    *(("PATCH", name) for name in ("groups", "configuration_managers")),
    *(("PATCH", name) for name in ("alert_rules", "alert_push_destinations") * 3),
    *(("DELETE", name) for name in GOOD_BODIES if name != "configuration_managers"),
)
LISTED = tuple(name for name, resource in RESOURCES.items() if resource.is_listed)
