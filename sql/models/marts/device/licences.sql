-- Grain: one row per device and subscription assigned to it; one row for a device without any.
-- Kind: table.

-- v3 knows a device by its MAC address, not by the id of its router.
with routers as (
    select mac, max(router_id) as router_id
    from {{ ref('stg_routers') }}
    group by mac
),

assigned as (
    select
        d.asset_endpoint_id,
        d.mac,
        d.serial_number,
        d.hardware_series,
        s.assignment_id,
        s.subscription_type_id,
        s.subscription_name,
        s.started_at,
        s.ends_at,
        max(s.ends_at) over (partition by d.asset_endpoint_id, s.subscription_type_id) as last_ends_at,
        row_number() over (
            partition by d.asset_endpoint_id, s.assignment_id
            order by s.ends_at desc nulls last, d.loaded_at desc, d.account_profile
        ) as newness
    from {{ ref('stg_asset_endpoints') }} as d
    left join {{ ref('stg_asset_endpoint_subscriptions') }} as s
        on d.asset_endpoint_id = s.asset_endpoint_id and d.account_profile = s.account_profile
)

select
    l.asset_endpoint_id,
    l.assignment_id,
    r.router_id,
    i.account_id,
    i.group_id,

    i.router_name,
    i.account_name,
    i.group_name,
    l.mac,
    l.serial_number,
    l.hardware_series,
    l.subscription_type_id as licence,
    l.subscription_name,
    case
        when l.assignment_id is null then 'unlicensed'
        when l.subscription_name is null then 'unknown'
        when l.ends_at <= k.known_until then 'ended'
        when l.started_at > k.known_until then 'not started'
        else 'licensed'
    end as licence_state,
    l.ends_at is not null and l.ends_at < l.last_ends_at as is_renewed,

    cast(floor({{ seconds_between('k.known_until', 'l.ends_at') }} / 86400) as double) as days_left,

    l.started_at,
    l.ends_at,
    k.known_until as as_of_at

from assigned as l
cross join {{ ref('int_as_of') }} as k
left join routers as r on l.mac = r.mac
left join {{ ref('int_routers') }} as i on r.router_id = i.router_id
where l.newness = 1
