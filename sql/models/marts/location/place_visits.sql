-- Grain: one row per router, named place and stop there.
-- Kind: table.

with found as (
    {{ in_places(ref('stops'), ['router_id', 'arrived_at'], 'latitude_deg', 'longitude_deg') }}
)

select
    f.place_name,
    s.router_id,
    r.account_id,
    r.group_id,

    r.router_name,
    r.account_name,
    r.group_name,
    s.is_still_there,
    s.is_first_seen,

    s.latitude_deg,
    s.longitude_deg,
    s.dwell_s,

    s.arrived_at,
    s.left_at

from found as f
inner join {{ ref('stops') }} as s on f.router_id = s.router_id and f.arrived_at = s.arrived_at
left join {{ ref('int_routers') }} as r on s.router_id = r.router_id
