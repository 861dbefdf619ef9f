-- Grain: one row per network interface and UTC day with a usage sample.
-- Kind: incremental. A unit is an interface and UTC day.

{{ config(
    materialized='incremental', incremental_strategy='append',
    meta={'unit': ['net_device_id', 'usage_date']},
    pre_hook="{{ forget(touched_usage_days()) }}",
    post_hook=["{{ mark_complete('usage_date') }}", "{{ remember_built() }}"]
) }}

with samples as (
    select
        *,
        {{ bytes_both_ways('in_bytes', 'out_bytes') }} as total_bytes,
        cast(sampled_at as date) as usage_date,
        {{ seconds_after('sampled_at', '-1 * coalesce(' ~ period_length('period_s') ~ ', 0)') }} as sampled_from
    from {{ ref('stg_net_device_usage_samples') }}
    where {{ in_reach('net_device_id', 'sampled_at', touched_usage_days(), days=0) }}
),

-- The periods of two samples may overlap; overlapping time counts once.
covering as (
    select
        *,
        {{ newly_covered_s(
            'sampled_from', 'sampled_at', ['net_device_id', 'usage_date'], 'sample_id'
        ) }} as covered_s
    from samples
    where {{ in_touched(['net_device_id', 'usage_date'], touched_usage_days()) }}
)

select
    net_device_id,
    usage_date,

    count(*) as samples,
    count(case when (in_bytes is not null and {{ byte_count('in_bytes') }} is null)
        or (out_bytes is not null and {{ byte_count('out_bytes') }} is null)
        or (period_s is not null and {{ period_length('period_s') }} is null) then 1 end) as odd_samples,
    {{ whole_sum(byte_count('in_bytes')) }} as in_bytes,
    {{ whole_sum(byte_count('out_bytes')) }} as out_bytes,
    {{ whole_sum('total_bytes') }} as total_bytes,
    max(total_bytes) as largest_sample_bytes,
    {{ whole_number(seconds_of_day('covered_s', 6)) }} as sampled_s,
    {{ whole_number(seconds_of_day('greatest(least(covered_s, coalesce(uptime_s, 0)), 0)', 6)) }} as connected_s,

    {{ is_sampled_whole('usage_date', of_all_samples('min'), of_all_samples('max')) }} as is_complete,
    min(sampled_at) as first_sampled_at,
    max(sampled_at) as last_sampled_at,
    {{ built_at() }} as built_at

from covering
group by net_device_id, usage_date
