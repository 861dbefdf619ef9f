"""Lists of the v3 generation (beta): another root, a bearer token, JSON:API records."""

from fleetlake.endpoints.columns import attributes_of
from fleetlake.endpoints.model import (
    MAX_RECORDS_PER_V3_PAGE,
    Api,
    Cursor,
    Endpoint,
    FanOut,
    Mode,
    Walk,
)


def _row(
    name: str,
    about: str,
    attributes: str,
    *,
    related: str = "",
    many: str = "",
    resource: str | None = None,
    fan_out: FanOut | None = None,
) -> Endpoint:
    """Return the row of a v3 list; all of them are paged and stored the same way."""
    return Endpoint(
        name=name,
        resource=resource,
        about=about,
        api=Api.V3,
        key=("id",),
        mode=Mode.HISTORY,
        cursor=Cursor(walk=Walk.LINK, parameter="page"),
        page_size=MAX_RECORDS_PER_V3_PAGE,
        columns=attributes_of(name, attributes, related, many),
        fan_out=fan_out,
    )


ROWS = (
    _row(
        "subscriptions",
        "Subscriptions: what was bought, how many, and for how long.",
        "name quantity start_time end_time",
        related="subscription_type tenants",
    ),
    _row(
        "asset_endpoints",
        "Devices under subscription; join them to `routers` by MAC address.",
        "mac_address serial_number hardware_series subscription_ids",
        many="subscriptions",
    ),
    _row(
        # The list of subscriptions does not have them: they are found by id only (observed).
        "asset_endpoint_subscriptions",
        "Subscriptions assigned to a device: `asset_endpoints` lists the ids.",
        "name quantity start_time end_time",
        related="subscription_type tenants",
        resource="subscriptions",
        fan_out=FanOut(
            parameter="filter[id]",
            source="asset_endpoints",
            listed_in=("subscriptions_ids", "subscription_ids"),
            ids_per_call=MAX_RECORDS_PER_V3_PAGE,
            partition="id",
        ),
    ),
    _row(
        "users_v3",
        "People who may log in; records of collaborators have fewer fields.",
        "email first_name last_name is_active last_login pending_email timeout",
        resource="users",
    ),
    _row("private_cellular_networks", "Private cellular networks.", "name mcc mnc state"),
    _row(
        "private_cellular_cores",
        "Packet cores of private cellular networks.",
        "name state",
        related="network",
    ),
    _row(
        "private_cellular_sims",
        "SIM cards of private cellular networks.",
        "iccid imsi state",
        related="network",
    ),
    _row(
        "private_cellular_radios",
        "Radios of private cellular networks.",
        "name tdd_mode",
        related="network",
    ),
    _row(
        "private_cellular_radio_groups",
        "Radio groups of private cellular networks.",
        "name",
        related="network",
    ),
    _row(
        "private_cellular_radio_statuses",
        "Status of each radio of a private cellular network.",
        "is_online transmitting",
        related="radio",
    ),
)
