-- Grain: one row per failover_event alert that no failover record accounts for.
-- Kind: table.

{{ config(materialized='table') }}

with alerts as (
    select alert_id, router_id, {{ failover_start('description', 'detected_at') }} as detected_at
    from {{ ref('stg_alerts') }}
    where alert_type in ('failover_event', 'alt_failover_event')
),

events as (
    select a.alert_id, a.router_id, a.detected_at
    from alerts as a
    left join {{ ref('stg_failovers') }} as f
        on a.router_id = f.router_id
        and abs({{ seconds_between('f.started_at', 'a.detected_at') }}) <= {{ var('failover_match_s') }}
    where f.failover_id is null
),

lost as (
    select e.alert_id, {{ last_by('w.interface', ['w.detected_at', 'w.interface']) }} as from_interface
    from events as e
    inner join {{ ref('int_wan_alerts') }} as w
        on e.router_id = w.router_id
        and w.is_loss
        and {{ seconds_between('w.detected_at', 'e.detected_at') }}
            between 0 and {{ var('failover_cause_s') }}
    group by e.alert_id
),

taken as (
    select e.alert_id, {{ first_by('w.interface', ['w.detected_at', 'w.interface']) }} as to_interface
    from events as e
    inner join {{ ref('int_wan_alerts') }} as w
        on e.router_id = w.router_id
        and not w.is_loss
        and {{ seconds_between('e.detected_at', 'w.detected_at') }}
            between 0 and {{ var('failover_match_s') }}
    group by e.alert_id
),

restored as (
    select e.alert_id, min(w.detected_at) as restored_at
    from events as e
    inner join lost as l on e.alert_id = l.alert_id
    inner join {{ ref('int_wan_alerts') }} as w
        on e.router_id = w.router_id
        and l.from_interface = w.interface
        and not w.is_loss
        and w.detected_at > e.detected_at
    group by e.alert_id
),

named as (
    select
        e.*,
        l.from_interface,
        t.to_interface,
        lag(t.to_interface) over (
            partition by e.router_id order by e.detected_at, e.alert_id
        ) as before_interface
    from events as e
    left join lost as l on e.alert_id = l.alert_id
    left join taken as t on e.alert_id = t.alert_id
),

-- A router that fails over again was back on its WAN in between, unless its backup failed too.
followed as (
    select
        *,
        min(case when before_interface is null or from_interface is distinct from before_interface then detected_at end)
            over (
                partition by router_id order by detected_at, alert_id
                rows between 1 following and unbounded following
            ) as anew_at
    from named
)

select
    f.alert_id,
    f.router_id,

    f.from_interface,
    f.to_interface,

    f.detected_at as started_at,
    least(r.restored_at, f.anew_at) as ended_at

from followed as f
left join restored as r on f.alert_id = r.alert_id
