-- Grain: one row per router and UTC day that the lake has data for, with the part that it covers.
-- Kind: table.

{{ config(materialized='table') }}

with spans as (
    select
        r.router_id,
        r.router_name,
        r.account_name,
        r.group_name,
        r.device_type,
        coalesce({{ first_evidence('r', 'a') }}, a.known_from) as known_from,
        least(a.known_until, coalesce(r.left_at, a.known_until)) as known_until
    from {{ ref('int_routers') }} as r
    cross join {{ ref('int_as_of') }} as a
),

days as (
    select
        *,
        {{ explode_days('cast(known_from as date)', 'cast(known_until as date)') }} as day_date
    from spans
    where known_from < known_until
)

select
    router_id,
    router_name,
    account_name,
    group_name,
    device_type,
    day_date,
    greatest(known_from, {{ day_start('day_date') }}) as from_at,
    least(known_until, {{ day_start('day_date') }} + interval 1 day) as until_at
from days
where known_until > {{ day_start('day_date') }}
