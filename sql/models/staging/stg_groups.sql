-- Grain: one row per group, as it is now.
-- Kind: view.

select * from {{ ref('stg_groups_history') }}
where valid_to is null
