-- Grain: one row per router or access point and span of time in one account, with its newest name.
-- Kind: incremental. A unit is a device.

-- A device is rewritten only if its name or one of its spans has changed: most new versions of a
-- record change something else.
{{ config(
    materialized='incremental', unique_key='router_id',
    incremental_strategy='delete+insert',
    post_hook="{{ remember_built() }}"
) }}

with versions as (
    select *
    from {{ ref('stg_routers_history') }}
    where {{ in_touched(['router_id'], touched_routers()) }}
),

newest as (
    select router_id, router_name
    from {{ ref('int_routers') }}
    where {{ in_touched(['router_id'], touched_routers()) }}
),

spans as (
    {{ version_spans('versions', 'router_id', ['account_id']) }}
),

named as (
    select
        s.router_id,
        s.account_id,
        n.router_name,
        s.from_at,
        s.until_at
    from spans as s
    inner join newest as n on s.router_id = n.router_id
)

{% if is_incremental() %}
, known as (
    select router_id, account_id, router_name, from_at, until_at
    from {{ this }}
    where {{ in_touched(['router_id'], touched_routers()) }}
),

changed as (
    (select * from named except select * from known)
    union all
    (select * from known except select * from named)
)
{% endif %}

select
    *,
    {{ built_at() }} as built_at
from named
{% if is_incremental() %}where router_id in (select router_id from changed){% endif %}
