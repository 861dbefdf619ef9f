-- Grain: one row per battery and report.
-- Kind: table.

with reports as (
    select
        *,
        row_number() over (
            partition by battery_id, reported_at order by loaded_at desc, valid_from desc
        ) as newness
    from {{ ref('stg_batteries_history') }}
    where reported_at is not null
),

followed as (
    select
        *,
        lag(reported_at) over per_battery as before_at,
        lag(charge_pct) over per_battery as before_charge_pct,
        lag(temperature_c) over per_battery as before_temperature_c
    from reports
    where newness = 1
    window per_battery as (partition by battery_id order by reported_at)
),

bridged as (
    select
        *,
        {{ seconds_between('before_at', 'reported_at') }} as gap_s,
        {{ seconds_between('before_at', 'reported_at') }} <= {{ var('battery_gap_s') }} as is_bridged
    from followed
)

select
    b.battery_id,
    b.router_id,

    r.router_name,
    b.charge_status,
    coalesce(current_ma < 0, false) or coalesce(charge_status = 'discharging', false) as is_discharging,
    coalesce(is_bridged, false) as is_bridged,

    health_pct,
    charge_pct,
    current_ma,
    voltage_mv,
    temperature_c,
    time_remaining_min,

    round(gap_s, 3) as gap_s,
    case when is_bridged then try_cast(cast(charge_pct as decimal(38, 0)) - before_charge_pct as bigint) end as charge_change_pct,
    {% for column, level in [('low_s', 'battery_low_pct'), ('almost_empty_s', 'battery_off_pct')] %}
    round(case when is_bridged then gap_s * {{ share_at_or_below(
        'before_charge_pct', 'charge_pct', var(level) ~ ' + 0.5e0') }} end, 1) as {{ column }},
    {% endfor %}
    round(case when is_bridged then gap_s * {{ share_at_or_below(
        '-before_temperature_c', '-temperature_c',
        half_step('before_temperature_c', 'temperature_c') ~ ' - ' ~ var('battery_hot_c')) }} end, 1) as hot_s,
    round(case when is_bridged then gap_s / 3600
        * {{ mean_above('before_temperature_c', 'temperature_c', var('battery_warm_c')) }} end, 3) as heat_degree_hours,

    reported_at

from bridged as b
left join {{ ref('int_routers') }} as r on b.router_id = r.router_id
