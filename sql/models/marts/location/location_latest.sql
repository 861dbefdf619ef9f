-- Grain: one row per router with a known place.
-- Kind: table.

-- A router that left the service has no row: it may have come back under another id.

{% set measured = ['latitude_deg', 'longitude_deg', 'accuracy_m', 'speed_kmh', 'carrier', 'rsrp_dbm', 'fixed_at'] %}

-- The two newest good fixes of each router, from its newest day or the day before.
with days as (
    select
        router_id,
        {% for column in measured %}
        last_{{ column }},
        case when before_fixed_at is not null then before_{{ column }}
            else lag(last_{{ column }}) over per_router end as before_{{ column }},
        {% endfor %}
        row_number() over (partition by router_id order by fix_date desc) as newness
    from {{ ref('int_fix_days') }}
    window per_router as (partition by router_id order by fix_date)
),

-- If the newest fix was reached too fast, only the next fix shows whether it is a jump or a move.
judged as (
    select
        *,
        coalesce({{ seconds_between('before_fixed_at', 'last_fixed_at') }} > 86400
            or not {{ too_far('before_latitude_deg', 'before_longitude_deg', 'last_latitude_deg',
                'last_longitude_deg', seconds_between('before_fixed_at', 'last_fixed_at')) }}, true) as is_judged
    from days
    where newness = 1
),

places as (
    select
        router_id,
        'fix' as source,
        'gnss' as location_method,
        {% for column in measured %}
        case when is_judged then last_{{ column }} else before_{{ column }} end
            as {{ 'located_at' if column == 'fixed_at' else column }}{{ ',' if not loop.last }}
        {% endfor %}
    from judged

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
    where router_id is not null
        and abs(latitude_deg) <= 90 and abs(longitude_deg) <= 180
        -- Null island (0, 0) is not a position.
        and (abs(latitude_deg) >= 0.001 or abs(longitude_deg) >= 0.001)
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
    r.account_name,
    r.group_name,
    n.source,
    n.location_method,
    n.carrier,
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
where n.newness = 1 and r.left_at is null
