-- Grain: one row per network interface and UTC day with a usage sample.
-- Kind: incremental. A unit is an interface and UTC day.

{{ config(
    materialized='incremental', incremental_strategy='append',
    meta={'unit': ['net_device_id', 'usage_date']},
    pre_hook="{{ forget(touched_usage_days()) }}",
    post_hook="{{ remember_built() }}"
) }}

with samples as (
    select
        *,
        cast(sampled_at as date) as usage_date
    from {{ ref('stg_net_device_usage_samples') }}
    where {{ in_reach('net_device_id', 'sampled_at', touched_usage_days(), days=0) }}
)

select
    net_device_id,
    usage_date,

    count(*) as samples,
    cast(sum(in_bytes) as bigint) as in_bytes,
    cast(sum(out_bytes) as bigint) as out_bytes,
    cast(sum(in_bytes + out_bytes) as bigint) as total_bytes,
    max(in_bytes + out_bytes) as largest_sample_bytes,
    cast(sum(period_s) as bigint) as sampled_s,

    min(sampled_at) as first_sampled_at,
    max(sampled_at) as last_sampled_at,
    {{ built_at() }} as built_at

from samples
where {{ in_touched(['net_device_id', 'usage_date'], touched_usage_days()) }}
group by net_device_id, usage_date
