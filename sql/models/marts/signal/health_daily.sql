-- Grain: one row per network interface and UTC day on which the service listed its score.
-- Kind: incremental. A unit is an interface and UTC day.

{{ config(
    materialized='incremental', incremental_strategy='append',
    meta={'unit': ['net_device_id', 'health_date']},
    pre_hook="{{ forget_found(touched_health_days()) }}",
    post_hook="{{ remember_built() }}"
) }}

-- A version lasts until the load that found another one, or until the newest event.
with versions as (
    select
        h.*,
        coalesce(h.valid_to, greatest(h.valid_from, a.known_until)) as listed_until
    from {{ ref('stg_net_device_health_history') }} as h
    cross join {{ ref('int_as_of') }} as a
    {% if is_incremental() %}
    where h.valid_to is null or h.valid_to >= {{ day_start(touched_from()) }}
    {% endif %}
),

days as (
    select
        *,
        {{ explode_days('cast(valid_from as date)', 'cast(listed_until as date)') }} as health_date
    from versions
),

-- A version that ends at midnight is not one of the day that starts then.
ordered as (
    select
        *,
        row_number() over (
            partition by net_device_id, health_date order by valid_from desc, loaded_at desc, account_profile
        ) as newness
    from days
    where (valid_from >= {{ day_start('health_date') }} or listed_until > {{ day_start('health_date') }})
        and {{ in_found(['net_device_id', 'health_date']) }}
)

select
    net_device_id,
    health_date,

    max(case when newness = 1 then health_category end) as health_category,
    max(case when newness = 1 then health_score end) as health_score,
    min(health_score) as min_health_score,
    max(health_score) as max_health_score,
    {{ built_at() }} as built_at

from ordered
where net_device_id is not null
group by net_device_id, health_date
