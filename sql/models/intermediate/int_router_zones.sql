-- Grain: one row per router or access point whose newest record names a known time zone.
-- Kind: table.

{{ config(materialized='table') }}

with known as (
    {{ known_zones() }}
)

select
    r.router_id,
    r.time_zone
from {{ ref('int_routers') }} as r
inner join known as k on r.time_zone = k.zone_name
