-- Grain: one row per battery, as the last poll found it.
-- Kind: view.

select * from {{ ref('stg_batteries_history') }}
where valid_to is null
