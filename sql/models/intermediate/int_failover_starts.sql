-- Grain: one row per failover record, and per failover_event alert that is not of a record's start.
-- Kind: table.

-- What was lost: the interface whose loss comes last before the start and that was not back by then.
-- Alerts may be stamped late, so the loss may also be stamped shortly after the start, or the start
-- after the interface was back. An interface on standby was not in use.
{{ config(materialized='table') }}

with records as (
    select
        failover_id as start_id,
        router_id,
        from_interface as record_from,
        to_interface as record_to,
        started_at,
        ended_at
    from {{ ref('stg_failovers') }}
    where router_id is not null and started_at is not null
),

alerts as (
    select
        alert_id as start_id,
        router_id,
        {{ failover_start('description', 'detected_at') }} as started_at
    from {{ ref('int_wan_alerts') }}
    where wan_state = 'failover' and detected_at is not null
),

slots as (
    select r.router_id, r.started_at, {{ slot_of('r.started_at', var('failover_match_s')) }} + n.n - 2 as slot
    from records as r
    cross join ({{ numbers(3) }}) as n
),

recorded as (
    select distinct a.start_id
    from (select *, {{ slot_of('started_at', var('failover_match_s')) }} as slot from alerts) as a
    inner join slots as s
        on a.router_id = s.router_id
        and a.slot = s.slot
        and abs({{ seconds_between('s.started_at', 'a.started_at') }}) <= {{ var('failover_match_s') }}
),

starts as (
    select 'record' as source, * from records
    union all
    select 'alerts' as source, a.start_id, a.router_id, null, null, a.started_at, null
    from alerts as a
    left join recorded as r on a.start_id = r.start_id
    where r.start_id is null
),

dated as (
    select
        *,
        {{ explode_days(
            'cast(' ~ seconds_after('started_at', -var('failover_lost_s')) ~ ' as date)',
            'cast(' ~ seconds_after('started_at', var('failover_match_s')) ~ ' as date)'
        ) }} as lost_date
    from starts
),

losses as (
    select
        s.start_id,
        s.source,
        s.started_at,
        s.record_from,
        w.*,
        {{ seconds_between('w.detected_at', 's.started_at') }} as early_s,
        w.connected_at is null or w.connected_at > s.started_at as is_still_lost
    from dated as s
    inner join {{ ref('int_wan_states') }} as w
        on s.router_id = w.router_id
        and s.lost_date = cast(w.detected_at as date)
        and {{ seconds_between('w.detected_at', 's.started_at') }}
            between -{{ var('failover_match_s') }} and {{ var('failover_lost_s') }}
    where w.wan_state = 'lost'
),

-- The first alert of a failover after a loss that was soon over. Most losses need no such order.
firsts as (
    select
        alert_id,
        {{ first_by('start_id', ['case when started_at >= detected_at then 0 else 1 end', 'started_at', 'start_id']) }}
            as first_start_id
    from losses
    where alert_id in (
        select alert_id
        from losses
        where source = 'alerts' and early_s between -1 and {{ var('failover_cause_s') }} and not is_still_lost
    )
    group by alert_id
),

ranked as (
    select *
    from (
        select
            l.*,
            case
                when early_s between -1 and {{ var('failover_cause_s') }} and is_still_lost
                    then case when before_state = 'standby' then 5 else 1 end
                -- An interface that came up after the start was lost after it.
                when early_s < -1 and (before_state is null or before_state <> 'connected' or before_at < started_at)
                    then 2
                when early_s between -1 and {{ var('failover_cause_s') }}
                    and (source = 'record' or start_id = f.first_start_id) then 3
                when early_s > {{ var('failover_cause_s') }} and is_still_lost then 4
            end as preference
        from losses as l
        left join firsts as f on l.alert_id = f.alert_id
    ) as rated
    where preference is not null
),

best as (
    select r.*
    from ranked as r
    inner join (
        select start_id, {{ last_by('alert_id', ['-preference', '-abs(early_s)', 'alert_id']) }} as alert_id
        from ranked
        where record_from is null or link = record_from or link like 'any %'
        group by start_id
    ) as b on r.start_id = b.start_id and r.alert_id = b.alert_id
),

-- An alert that comes after the failover is over does not say when it began.
begun as (
    select
        s.source,
        s.start_id,
        s.router_id,
        s.record_from,
        s.record_to,
        s.ended_at,
        case when s.source = 'alerts' and b.preference = 3 then b.detected_at else s.started_at end as started_at
    from starts as s
    left join best as b on s.start_id = b.start_id
),

events as (
    select
        router_id, 'start' as kind, start_id as event_id, null as link, started_at as happened_at, 1 as turn,
        null as lost_at
    from begun

    union all

    select
        router_id, 'connected' as kind, alert_id, link, detected_at, turn,
        case when before_state = 'lost' then before_at end
    from {{ ref('int_wan_states') }}
    where wan_state = 'connected'
),

followed as (
    select
        *,
        lag(kind) over track as before_kind,
        lag(happened_at) over track as start_at,
        count(case when kind = 'connected' then 1 end)
            over (
                partition by router_id order by happened_at, turn, event_id
                rows between unbounded preceding and current row
            ) as connections
    from events
    window track as (partition by router_id order by happened_at, turn, event_id)
),

-- The first interface that comes up shortly after a start took over, unless it was lost just before.
connections as (
    select
        *,
        coalesce(
            before_kind = 'start' and {{ seconds_between('start_at', 'happened_at') }} <= {{ var('failover_match_s') }}
            and (lost_at is null or {{ seconds_between('lost_at', 'start_at') }} > {{ var('failover_cause_s') }}),
            false
        ) as is_takeover
    from followed
    where kind = 'connected'
),

-- An interface that takes over, or waits on standby, at least as often as it is lost is a backup; so is,
-- usually, the modem of a router with a wired WAN. A lost interface may be on standby for a moment
-- before it is connected again.
votes as (
    select router_id, record_to as link, 1 as as_backup, 0 as as_lost from records
    union all
    select router_id, record_from, 0, 1 from records
    union all
    select router_id, link, 0, 1 from best where preference < 4 and source = 'alerts'
    union all
    select router_id, link, 1, 0 from connections where is_takeover
    union all
    select router_id, link, 1, 0
    from {{ ref('int_wan_states') }}
    where wan_state = 'standby' and not coalesce(before_state = 'lost' and after_state = 'connected', false)
    union all
    select distinct w.router_id, w.link, 1, 0
    from {{ ref('int_wan_states') }} as w
    where w.wan_alert_type not like 'ethernet%'
        and w.router_id in (
            select router_id from {{ ref('int_wan_states') }} where wan_alert_type like 'ethernet%'
        )
),

backups as (
    select router_id, link
    from votes
    where link is not null
    group by router_id, link
    having sum(as_backup) >= greatest(sum(as_lost), 1)
),

-- Another interface that was lost too and is no backup: once it is back, the failover is over.
others as (
    select r.start_id, min(r.connected_at) as other_back_at
    from ranked as r
    inner join best as b on r.start_id = b.start_id and r.link <> b.link
    left join backups as k on r.router_id = k.router_id and r.link = k.link
    where r.preference in (1, 4) and k.link is null
    group by r.start_id
),

-- An interface that is no backup comes up: the router is back on a preferred WAN.
homecomings as (
    select
        f.event_id as start_id,
        f.connections,
        min(case when c.event_id is not null and k.link is null and not c.is_takeover then f.happened_at end)
            over (
                partition by f.router_id order by f.happened_at desc, f.turn desc, f.event_id desc
                rows between unbounded preceding and 1 preceding
            ) as home_at,
        f.kind
    from followed as f
    left join connections as c on f.router_id = c.router_id and f.event_id = c.event_id and f.kind = c.kind
    left join backups as k on f.router_id = k.router_id and f.link = k.link
)

select
    s.start_id,
    s.source,
    s.router_id,

    coalesce(s.record_from, b.link) as from_link,
    s.record_to,
    k.link is not null as is_from_backup,

    b.alert_id as loss_id,
    b.is_repeat as is_loss_repeated,
    b.detected_at as lost_at,
    b.connected_at as back_at,
    o.other_back_at,
    h.home_at,

    before.link as before_link,
    before.happened_at as before_at,
    earlier.link is not null as is_before_backup,
    after.link as after_link,
    after.happened_at as after_at,
    later.link is not null as is_after_backup,
    after.is_takeover as is_after_takeover,

    s.started_at,
    s.ended_at

from begun as s
left join (
    select b.*
    from best as b
    left join backups as k on b.router_id = k.router_id and b.link = k.link
    -- A backup that was lost long before, or on standby, was idle.
    where b.preference < 4 or b.source = 'record' or k.link is null
) as b on s.start_id = b.start_id
left join others as o on s.start_id = o.start_id
left join backups as k on s.router_id = k.router_id and coalesce(s.record_from, b.link) = k.link
inner join homecomings as h on s.start_id = h.start_id and h.kind = 'start'
left join connections as before on s.router_id = before.router_id and h.connections = before.connections
left join backups as earlier on s.router_id = earlier.router_id and before.link = earlier.link
left join connections as after on s.router_id = after.router_id and h.connections + 1 = after.connections
left join backups as later on s.router_id = later.router_id and after.link = later.link
