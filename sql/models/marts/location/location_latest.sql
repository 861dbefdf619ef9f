-- Grain: one row per router with a known place.
-- Kind: table.

with days as (
    select
        *,
        row_number() over (partition by router_id order by fix_date desc) as newness
    from {{ ref('int_fix_days') }}
),

places as (
    select
        router_id,
        'fix' as source,
        'gnss' as location_method,
        last_latitude_deg as latitude_deg,
        last_longitude_deg as longitude_deg,
        last_accuracy_m as accuracy_m,
        last_speed_kmh as speed_kmh,
        last_carrier as carrier,
        last_rsrp_dbm as rsrp_dbm,
        last_fixed_at as located_at
    from days
    where newness = 1

    union all

    select
        router_id,
        'record' as source,
        location_method,
        latitude_deg,
        longitude_deg,
        accuracy_m,
        null as speed_kmh,
        null as carrier,
        null as rsrp_dbm,
        updated_at as located_at
    from {{ ref('stg_locations') }}
    where latitude_deg is not null and longitude_deg is not null and router_id is not null
),

newest as (
    select
        *,
        row_number() over (
            partition by router_id order by located_at desc nulls last, source, latitude_deg, longitude_deg
        ) as newness
    from places
)

select
    n.router_id,
    r.account_id,
    r.group_id,

    r.router_name,
    n.source,
    n.location_method,
    coalesce(c.carrier, n.carrier) as carrier,
    r.connection_state,

    n.latitude_deg,
    n.longitude_deg,
    n.accuracy_m,
    n.speed_kmh,
    n.rsrp_dbm,
    round({{ seconds_between('n.located_at', 'a.known_until') }}, 0) as age_s,

    n.located_at

from newest as n
cross join {{ ref('int_as_of') }} as a
left join {{ ref('int_routers') }} as r on n.router_id = r.router_id
left join {{ ref('int_carriers') }} as c on n.carrier = c.carrier_code
where n.newness = 1
