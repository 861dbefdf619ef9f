-- Grain: one row per network code, with the carrier's name as interfaces last told it.
-- Kind: view.

-- Fixes name their carrier by its code.
with named as (
    select
        carrier_id as carrier_code,
        carrier,
        row_number() over (partition by carrier_id order by valid_from desc, carrier) as newness
    from {{ ref('stg_net_devices_history') }}
    where carrier_id is not null and carrier is not null
)

select
    carrier_code,
    carrier
from named
where newness = 1
