-- Grain: one row per battery, with the newest version of its record, present or gone.
-- Kind: view.

with versions as (
    select
        *,
        row_number() over (
            partition by battery_id order by valid_to desc nulls first, valid_from desc, loaded_at desc, account_profile
        ) as newness
    from {{ ref('stg_batteries_history') }}
)

select
    battery_id,
    router_id,

    manufacturer,
    serial_number,
    power_source_type,

    created_at,
    valid_to as left_at

from versions
where newness = 1
