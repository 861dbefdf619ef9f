-- Grain: one row per account, as it is now.
-- Kind: view.

select * from {{ ref('stg_accounts_history') }}
where valid_to is null
