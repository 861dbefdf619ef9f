-- Grain: one row per account, with the newest version of its record, present or gone.
-- Kind: table.

-- If two keys list an account, the one that still lists it takes precedence.
with versions as (
    select
        *,
        row_number() over (
            partition by account_id order by valid_to desc nulls first, valid_from desc, loaded_at desc, account_profile
        ) as newness
    from {{ ref('stg_accounts_history') }}
),

newest as (
    select * from versions
    where newness = 1
)

select
    a.account_id,
    a.parent_account_id,

    a.account_name,
    p.account_name as parent_account_name,
    a.is_disabled,
    a.valid_to is null as is_listed,

    a.valid_to as left_at

from newest as a
left join newest as p on a.parent_account_id = p.account_id
