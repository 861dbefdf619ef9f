-- Grain: one row: the span of time that the lake knows anything about.
-- Kind: table.

-- The newest event and not the clock, so that the same rows give the same marts at any hour.
{{ config(materialized='table') }}

with events as (
    select min(created_at) as first_at, max(created_at) as last_at from {{ ref('stg_alerts') }}
    union all
    select min(started_at), max(updated_at) from {{ ref('stg_failovers') }}
    union all
    select min(sampled_at), max(sampled_at) from {{ ref('stg_net_device_usage_samples') }}
    union all
    select min(fixed_at), max(fixed_at) from {{ ref('stg_historical_locations') }}
    union all
    select min(reported_at), max(reported_at) from {{ ref('stg_batteries_history') }}
)

select
    min(first_at) as known_from,
    max(last_at) as known_until
from events
