-- Grain: one row per battery and discharge: readings in a row that show it discharging.
-- Kind: table.

with edges as (
    select
        *,
        lag(is_discharging) over per_battery as was_discharging,
        lag(charge_pct) over per_battery as before_charge_pct
    from {{ ref('battery_readings') }}
    window per_battery as (partition by battery_id order by reported_at)
),

numbered as (
    select
        *,
        sum(case when is_discharging and not (coalesce(was_discharging, false) and is_bridged) then 1 else 0 end)
            over (partition by battery_id order by reported_at) as discharge_number
    from edges
),

summed as (
    select
        battery_id,
        router_id,
        discharge_number,
        count(*) as readings,
        {{ first_by('charge_pct', ['reported_at']) }} as first_charge_pct,
        {{ last_by('charge_pct', ['reported_at']) }} as last_charge_pct,
        {{ exact_mean('current_ma', 0) }} as mean_current_ma,
        min(reported_at) as started_at,
        max(reported_at) as ended_at
    from numbered
    where is_discharging
    group by battery_id, router_id, discharge_number
),

newest as (
    select battery_id, max(reported_at) as newest_at
    from {{ ref('battery_readings') }}
    group by battery_id
)

select
    s.battery_id,
    s.router_id,

    r.router_name,
    r.account_name,
    r.group_name,
    s.ended_at = n.newest_at as is_open,

    s.readings,
    s.first_charge_pct,
    s.last_charge_pct,
    try_cast(cast(s.first_charge_pct as decimal(38, 0)) - s.last_charge_pct as bigint) as discharged_pct,
    s.mean_current_ma,
    round({{ seconds_between('s.started_at', 's.ended_at') }}, 3) as duration_s,

    s.started_at,
    s.ended_at

from summed as s
inner join newest as n on s.battery_id = n.battery_id
left join {{ ref('int_routers') }} as r on s.router_id = r.router_id
