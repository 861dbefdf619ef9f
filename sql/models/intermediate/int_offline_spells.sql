-- Grain: one row per router and unbroken spell offline.
-- Kind: table.

{{ config(materialized='table') }}

with changes as (
    select
        *,
        lag(is_offline) over track as was_offline
    from {{ ref('int_connection_events') }}
    window track as (partition by router_id order by changed_at, is_offline, evidence)
),

-- An event with the same state as the one before is not a change: most appear in both sources.
spells as (
    select
        router_id,
        is_offline,
        evidence,
        changed_at as started_at,
        lead(changed_at) over (partition by router_id order by changed_at, is_offline, evidence) as ended_at
    from changes
    where was_offline is null or is_offline <> was_offline
)

select
    s.router_id,
    s.evidence,
    s.started_at as began_at,
    greatest(s.started_at, a.known_from) as started_at,
    s.ended_at,
    coalesce(s.ended_at, greatest(a.known_until, s.started_at)) as until_at
from spells as s
cross join {{ ref('int_as_of') }} as a
where s.is_offline
