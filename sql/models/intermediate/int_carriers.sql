-- Grain: one row per network code, with the name that interfaces last reported for it.
-- Kind: view.

-- Fixes contain the code of their carrier, not its name.
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
