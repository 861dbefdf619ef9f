-- Grain: one row per network code (MCC and MNC), with the name of its carrier.
-- Kind: incremental. A unit is a code.

-- Fixes contain the code of their carrier, not its name. The name that interfaces first reported for a
-- code takes precedence over the one in the seed, because all other marts have the reported names.
-- A code is rewritten only if its name has changed: its fixes are then rewritten too.
{{ config(
    materialized='incremental', unique_key='carrier_code',
    incremental_strategy='delete+insert',
    post_hook="{{ remember_built() }}"
) }}

with reported as (
    select
        carrier_id as carrier_code,
        carrier,
        row_number() over (partition by carrier_id order by valid_from, carrier) as age
    from {{ ref('stg_net_devices_history') }}
    where {{ is_carrier_code('carrier_id') }} and carrier is not null and carrier <> carrier_id
),

named as (
    select
        coalesce(r.carrier_code, s.carrier_code) as carrier_code,
        coalesce(r.carrier, s.carrier) as carrier
    from (select * from reported where age = 1) as r
    full join {{ ref('carrier_codes') }} as s on r.carrier_code = s.carrier_code
)

{% if is_incremental() %}
, known as (
    select carrier_code, carrier from {{ this }}
)

select
    coalesce(n.carrier_code, k.carrier_code) as carrier_code,
    n.carrier,
    {{ built_at() }} as built_at
from named as n
full join known as k on n.carrier_code = k.carrier_code
where n.carrier is distinct from k.carrier
{% else %}
select
    *,
    {{ built_at() }} as built_at
from named
{% endif %}
