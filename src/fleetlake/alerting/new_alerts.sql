-- Alerts with the names of their devices and groups, in the order of their rows.
select
    row_number, push_id, alert_id, arrived_by, a.account_profile, a.type, a.friendly_info,
    a.detected_at, a.account_id, a.router_id, routers.name, groups.name, routers.group_id,
    a._loaded_at
from ({alerts}) as a
left join raw.{routers} as routers
    on routers.id = a.router_id
    and routers.valid_to is null
    and routers.account_profile = a.account_profile
left join raw.{groups} as groups
    on groups.id = routers.group_id
    and groups.valid_to is null
    and groups.account_profile = a.account_profile
order by row_number
limit $most
