-- Grain: one row per network interface and UTC day with a signal sample.
-- Kind: incremental. A unit is an interface and UTC day.

{{ config(
    materialized='incremental', incremental_strategy='append',
    meta={'unit': ['net_device_id', 'signal_date']},
    pre_hook="{{ forget(touched_signal_days()) }}",
    post_hook=["{{ mark_complete('signal_date') }}", "{{ remember_built() }}"]
) }}

{% set weak_rsrp = 'case when rsrp_dbm < ' ~ var('weak_rsrp_dbm') ~ ' then rsrp_dbm end' %}

with samples as (
    select
        *,
        cast(sampled_at as date) as signal_date
    from {{ ref('stg_net_device_signal_samples') }}
    where {{ in_reach('net_device_id', 'sampled_at', touched_signal_days(), days=0) }}
)

select
    net_device_id,
    signal_date,

    count(*) as samples,
    {{ exact_count('rsrp_dbm') }} as rsrp_samples,
    {{ exact_count('rsrq_db') }} as rsrq_samples,
    {{ exact_count('sinr_db') }} as sinr_samples,
    {{ exact_count('signal_pct') }} as signal_pct_samples,
    {{ exact_count(weak_rsrp) }} as weak_samples,
    {{ exact_mean('rsrp_dbm') }} as mean_rsrp_dbm,
    min(rsrp_dbm) as min_rsrp_dbm,
    max(rsrp_dbm) as max_rsrp_dbm,
    {{ exact_mean('rsrq_db') }} as mean_rsrq_db,
    {{ exact_mean('sinr_db') }} as mean_sinr_db,
    min(sinr_db) as min_sinr_db,
    {{ exact_mean('signal_pct') }} as mean_signal_pct,
    round(100.0 * {{ exact_count(weak_rsrp) }} / nullif({{ exact_count('rsrp_dbm') }}, 0), 1) as weak_pct,

    {{ exact_count('rsrp_5g_dbm') }} as samples_5g,
    {{ exact_count('rsrq_5g_db') }} as rsrq_5g_samples,
    {{ exact_count('sinr_5g_db') }} as sinr_5g_samples,
    {{ exact_mean('rsrp_5g_dbm') }} as mean_rsrp_5g_dbm,
    min(rsrp_5g_dbm) as min_rsrp_5g_dbm,
    max(rsrp_5g_dbm) as max_rsrp_5g_dbm,
    {{ exact_mean('rsrq_5g_db') }} as mean_rsrq_5g_db,
    {{ exact_mean('sinr_5g_db') }} as mean_sinr_5g_db,
    min(sinr_5g_db) as min_sinr_5g_db,

    {{ exact_count('rsrp_5g_highband_dbm') }} as samples_5g_highband,
    {{ exact_count('rsrq_5g_highband_db') }} as rsrq_5g_highband_samples,
    {{ exact_count('sinr_5g_highband_db') }} as sinr_5g_highband_samples,
    {{ exact_mean('rsrp_5g_highband_dbm') }} as mean_rsrp_5g_highband_dbm,
    {{ exact_mean('rsrq_5g_highband_db') }} as mean_rsrq_5g_highband_db,
    {{ exact_mean('sinr_5g_highband_db') }} as mean_sinr_5g_highband_db,

    {{ is_sampled_whole('signal_date', of_all_samples('min'), of_all_samples('max')) }} as is_complete,
    min(sampled_at) as first_sampled_at,
    max(sampled_at) as last_sampled_at,
    {{ built_at() }} as built_at

from samples
where {{ in_touched(['net_device_id', 'signal_date'], touched_signal_days()) }}
group by net_device_id, signal_date
