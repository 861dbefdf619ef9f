"""The tables of a lake, for editors. Rendered by `make reference`."""

from fleetlake.analysis.frames import Table
from fleetlake.analysis.reader import Schema

class Raw(Schema):
    """The raw tables: one per endpoint."""

    accounts: Table
    """The account tree and its history."""
    users: Table
    """People who may log in."""
    groups: Table
    """Groups of devices and their shared settings."""
    products: Table
    """Device models."""
    firmwares: Table
    """Firmware releases by product."""
    routers: Table
    """Routers and access points."""
    net_devices: Table
    """Network interfaces: modems, Ethernet and WiFi, WAN and LAN."""
    router_lans: Table
    """Local networks of each router."""
    configuration_managers: Table
    """Settings of each device: individual, pending and in force."""
    net_device_metrics: Table
    """The latest signal and traffic counters of each interface."""
    net_device_health: Table
    """The service's own score of each modem's link, and its history."""
    locations: Table
    """The latest location of each device."""
    batteries: Table
    """Charge, current, temperature and health of each battery at every poll."""
    device_apps: Table
    """Apps built with the device SDK."""
    device_app_versions: Table
    """Versions of the device apps."""
    device_app_bindings: Table
    """Which group runs which app version."""
    device_app_states: Table
    """State of each app version on each device."""
    alert_rules: Table
    """Which alerts the service raises, and who is notified."""
    alert_push_destinations: Table
    """Where the service pushes alerts, and whether deliveries succeed."""
    alerts: Table
    """Alerts that the service raised, by device or account."""
    pushed_alerts: Table
    """Alerts that the service pushed, seconds after it raised them."""
    activity_logs: Table
    """Who changed what, with the entity before and after."""
    failovers: Table
    """Each failover of a router to a backup WAN, updated until it ends."""
    historical_locations: Table
    """Every location fix of each device, with the signal there."""
    net_device_usage_samples: Table
    """Bytes moved by each interface, period by period."""
    net_device_signal_samples: Table
    """Signal of each modem, period by period."""
    router_alerts: Table
    """Alerts recorded in each device's log."""
    router_logs: Table
    """Log entries that devices sent."""
    router_state_samples: Table
    """Whether each device was online, period by period."""
    router_stream_usage_samples: Table
    """Bytes moved by each device, period by period."""
    subscriptions: Table
    """Subscriptions: what was bought, how many, and for how long."""
    asset_endpoints: Table
    """Devices under subscription; join them to `routers` by MAC address."""
    asset_endpoint_subscriptions: Table
    """Subscriptions assigned to a device: `asset_endpoints` lists the ids."""
    users_v3: Table
    """People who may log in; records of collaborators have fewer fields."""
    private_cellular_networks: Table
    """Private cellular networks."""
    private_cellular_cores: Table
    """Packet cores of private cellular networks."""
    private_cellular_sims: Table
    """SIM cards of private cellular networks."""
    private_cellular_radios: Table
    """Radios of private cellular networks."""
    private_cellular_radio_groups: Table
    """Radio groups of private cellular networks."""
    private_cellular_radio_statuses: Table
    """Status of each radio of a private cellular network."""

class Marts(Schema):
    """The marts of this release; your own are there, too."""

    change_log: Table
    """Who changed what, when, and from what to what."""
    security_events: Table
    """Logins, lockouts, intrusions and unknown devices, from alerts and activity; an event present in both, such as a lockout, appears twice."""
    alert_log: Table
    """Each alert of the last 31 days, in the words of the service, with the repeats that follow it."""
    alert_volume: Table
    """How many alerts of each type each device raises, and how many of them are repeats."""
    attention: Table
    """What needs a person today, in words, and how urgently."""
    battery_readings: Table
    """Each reading of each battery, with the change of charge and heat since the reading before."""
    battery_daily: Table
    """Daily ranges, cycles, time at low charge and heat of each battery."""
    battery_discharges: Table
    """Each time a battery powered its router."""
    battery_health: Table
    """The state of each battery, a summary of its history, and when it will be worn out (62% health) at its recent rate."""
    battery_risk: Table
    """Which batteries to replace first, and why."""
    battery_alert_check: Table
    """Battery alerts compared with the readings, in both directions."""
    device_availability_daily: Table
    """How much of each day each device was connected, from its alerts and its record, as far as its state is known."""
    device_inventory: Table
    """Every device with its account, group, state, firmware, carrier and location."""
    device_history: Table
    """Every version of every device's record, and what changed in it."""
    interface_inventory: Table
    """Every modem and port with its router, carrier, SIM card and modem firmware, present or gone."""
    sim_changes: Table
    """Each SIM card that was swapped or moved, and each modem that came into another router with its card."""
    licences: Table
    """Which subscription each device has, and until when; devices without any."""
    accounts: Table
    """Every account with its parent, present or gone."""
    dates: Table
    """A calendar. It covers each year that the lake has data for, the year before and the year after."""
    failover_episodes: Table
    """When each router left its preferred WAN, why, for how long, how much data it used, and what it cost."""
    failover_daily: Table
    """Time and traffic on a backup, per day."""
    failover_cost_monthly: Table
    """What backups cost, per carrier."""
    failover_now: Table
    """Which routers are on a backup now, as far as known, since when, and how good its signal is."""
    wan_availability_daily: Table
    """Site uptime. How much of each day a router was on its preferred WAN, on a backup, or offline."""
    location_track_points: Table
    """Every fix of every device, rated but never dropped, with speed and signal."""
    trips: Table
    """Each trip of each vehicle from stop to stop, with speed and signal."""
    vehicle_daily: Table
    """What each vehicle did each local day, days without a trip included."""
    stops: Table
    """Where each device stopped, for how long, and how often it goes there."""
    place_visits: Table
    """When each vehicle was at each place of the project's `places.csv`, and for how long."""
    location_latest: Table
    """Where each device of the service is now, from its newest confirmed fix or its location record."""
    location_gaps: Table
    """When devices were not located for 24 hours or more; a device that was never located has no row."""
    coverage_grid: Table
    """Signal by grid cell and carrier, measured by the devices themselves."""
    pipeline_freshness: Table
    """How old the data of each endpoint is, and where it has holes."""
    signal_daily: Table
    """Signal of each modem, per day."""
    health_daily: Table
    """The service's own score of each modem's link, per day."""
    data_usage_daily: Table
    """Bytes moved by each interface, per day."""
    data_usage_month: Table
    """Bytes moved by each interface, per month, projected to the month's end and compared with the cap."""
