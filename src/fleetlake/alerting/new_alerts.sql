-- name: named
-- Alerts with the names of their devices and groups, in the order of their rows.
select
    row_number, push_id, alert_id, arrived_by, a.account_profile, a.type, a.friendly_info,
    a.detected_at, a.account_id, a.router_id, routers.name, groups.name, routers.group_id,
    a._loaded_at
from ({alerts}) as a
left join raw.{router_list} as routers
    on routers.id = a.router_id
    and routers.valid_to is null
    and routers.account_profile = a.account_profile
left join raw.{group_list} as groups
    on groups.id = routers.group_id
    and groups.valid_to is null
    and groups.account_profile = a.account_profile
order by row_number
limit $most

-- name: polled
select
    rowid as row_number, coalesce(c.push_id, lower({key})) as push_id, {key} as alert_id,
    'poll' as arrived_by, account_profile, type, friendly_info, account_id, router_id, _loaded_at,
    coalesce(detected_at, created_at) as detected_at
from raw.{polled}
left join (
    select alert_id as confirmed, push_id from meta.confirmations
) as c on c.confirmed = {key}
where rowid > $polled and created_at >= $since
    and (len($types) = 0 or list_contains($types, type))
    -- The push was announced, or is older than the first look.
    and not exists (
        select 1 from raw.{pushed} as p where p.push_id = c.push_id and p.rowid <= $pushed
    )

-- name: pushed
select
    rowid as row_number, push_id, coalesce(created_at_timeuuid, push_id) as alert_id,
    'push' as arrived_by, account_profile, type, friendly_info, account_id, router_id, _loaded_at,
    coalesce(detected_at, alerted_at) as detected_at
from raw.{pushed}
where rowid > $pushed and alerted_at >= $since
    and (len($types) = 0 or list_contains($types, type))
    -- The polled alert is announced instead.
    and push_id not in (select push_id from meta.confirmations)
