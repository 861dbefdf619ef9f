-- Grain: one row per failover that no record accounts for, from alerts.
-- Kind: table.

-- A failover is over when what was lost is back, when an interface that is no backup comes up, when the
-- backup goes on standby, or when the failover is over during which its own backup failed too. If none of
-- these was reported, it is over by the time that the same interface is lost again.
{{ config(materialized='table') }}

with starts as (
    select
        *,
        lag(started_at) over track as before_started_at,
        lag(ended_at) over track as before_ended_at,
        lag(source) over track as before_source,
        lag(from_link) over track as before_from_link,
        lead(started_at) over track as after_started_at,
        lead(source) over track as after_source,
        lead(from_link) over track as after_from_link,
        lead(loss_id) over track as after_loss_id,
        lag(started_at) over same as same_started_at
    from {{ ref('int_failover_starts') }}
    -- Records matter only for the alerts of their router, which most routers have none of.
    where router_id in (select router_id from {{ ref('int_failover_starts') }} where source = 'alerts')
    window
        track as (partition by router_id order by started_at, start_id),
        same as (partition by router_id, from_link order by started_at, start_id)
),

-- An alert that comes minutes after the start of a failover, or of its record, adds nothing to it, unless
-- something was lost again or an interface takes over.
others as (
    select
        *,
        source = 'record' or same_started_at is null or (
            not is_loss_repeated
            and {{ seconds_between('same_started_at', 'lost_at') }} > {{ var('failover_match_s') }}
        ) as is_lost_again
    from starts
    where source = 'record' or not (
        coalesce(
            {{ seconds_between('before_started_at', 'started_at') }} <= {{ var('failover_cause_s') }}
            and not coalesce(is_after_takeover, false)
            and (from_link is null or (
                before_source = 'record'
                and from_link = before_from_link
                and {{ seconds_between('before_started_at', 'lost_at') }} <= {{ var('failover_match_s') }}
            )),
            false
        )
        or coalesce(
            after_source = 'record'
            and {{ seconds_between('started_at', 'after_started_at') }} <= {{ var('failover_cause_s') }}
            and (from_link is null or from_link = after_from_link)
            and (loss_id is null or loss_id = after_loss_id),
            false
        )
    )
),

-- If nothing was lost, an interface that takes over says what happened: the backup before it failed, if
-- it is another one; the router was back on its WAN in between, if it is the same.
moved as (
    select
        *,
        (from_link is null or not is_lost_again)
            and coalesce(is_after_takeover and before_at >= before_started_at and after_link = before_link, false)
            and not coalesce(before_source = 'record' and coalesce(before_ended_at, {{ never() }}) > started_at, false)
            as is_taken_again,
        (from_link is null or not is_lost_again)
            and coalesce(is_after_takeover and before_at >= before_started_at, false)
            and after_link <> before_link
            and (from_link is null or from_link not in (before_link, after_link)) as is_moved,
        from_link is not null and before_link <> from_link and before_at >= lost_at
            or from_link is null and is_before_backup
            and {{ seconds_between('before_at', 'started_at') }} <= {{ var('failover_match_s') }} as was_up
    from others
),

taken as (
    select
        *,
        case
            when record_to is not null then record_to
            when was_up and not is_moved and not is_taken_again then before_link
            when from_link is null and not is_after_takeover and not is_after_backup then null
            when from_link is null or after_link <> from_link then after_link
        end as to_link,
        case when was_up and not is_moved and not is_taken_again then before_at else after_at end as taken_at
    from moved
),

-- A backup that is connected again at once, without another failover, was not on standby.
standbys as (
    select w.alert_id
    from {{ ref('int_wan_states') }} as w
    left join {{ ref('int_failover_starts') }} as s
        on w.router_id = s.router_id
        and s.started_at between w.detected_at and {{ seconds_after('w.after_at', var('failover_match_s')) }}
    where w.wan_state = 'standby'
        and w.after_state = 'connected'
        and {{ seconds_between('w.detected_at', 'w.after_at') }} <= {{ var('failover_cause_s') }}
    group by w.alert_id
    having count(s.start_id) = 0
),

waiting as (
    select router_id, to_link as link, start_id, greatest(started_at, taken_at) as happened_at, 4 as turn
    from taken
    where source = 'alerts' and to_link is not null
    union all
    select w.router_id, w.link, null, w.detected_at, w.turn
    from {{ ref('int_wan_states') }} as w
    left join standbys as s on w.alert_id = s.alert_id
    where w.wan_state = 'standby' and s.alert_id is null
),

rested as (
    select
        start_id,
        min(case when start_id is null then happened_at end) over (
            partition by router_id, link order by happened_at desc, turn desc, start_id desc
            rows between unbounded preceding and 1 preceding
        ) as standby_at
    from waiting
),

ends as (
    select
        t.*,
        r.standby_at,
        case
            when t.source = 'alerts' then least(
                t.back_at, t.other_back_at, r.standby_at,
                case when t.from_link is null or t.is_from_backup then t.home_at end
            )
            when t.ended_at is not null then greatest(t.ended_at, t.started_at)
        end as told_at,
        min(case when t.from_link is not null and is_lost_again then coalesce(t.lost_at, t.started_at) end) over (
            partition by t.router_id, t.from_link order by t.started_at desc, t.start_id desc
            rows between unbounded preceding and 1 preceding
        ) as lost_again_at,
        min(case when is_taken_again then t.started_at end) over next_ones as taken_again_at,
        min(case
            when t.from_link is not null and not t.is_from_backup and is_lost_again then coalesce(t.lost_at, t.started_at)
        end) over next_ones as preferred_lost_at
    from taken as t
    left join rested as r on t.start_id = r.start_id
    window next_ones as (
        partition by t.router_id order by t.started_at desc, t.start_id desc rows between unbounded preceding and 1 preceding
    )
),

-- When an interface that is no backup is lost again, the router was back on its preferred WAN.
bounded as (
    select
        *,
        case
            when source = 'record' then null
            when from_link is not null and not is_from_backup then least(lost_again_at, taken_again_at)
            else least(lost_again_at, taken_again_at, preferred_lost_at)
        end as again_at
    from ends
),

closed as (
    select
        *,
        coalesce(least(told_at, case when again_at is not null then greatest(again_at, started_at) end), {{ never() }}) as closed_at,
        case when told_at <= coalesce(again_at, told_at) then 0 else 1 end as is_untold
    from bounded
),

known as (
    select
        *,
        max(closed_at) over (
            partition by router_id order by started_at, start_id rows between unbounded preceding and 1 preceding
        ) as reached_at
    from (
        select
            *,
            lag(closed_at) over (partition by router_id, from_link order by started_at, start_id) as same_closed_at
        from closed
    ) as same
    where source = 'record' or is_moved or from_link is null or is_lost_again or is_taken_again
        or same_closed_at is null or same_closed_at <= started_at
),

-- An alert without any news continues the failover.
failovers as (
    select
        *,
        sum(case when reached_at > started_at then 0 else 1 end) over (
            partition by router_id order by started_at, start_id rows between unbounded preceding and current row
        ) as chain
    from known
    where source = 'record' or is_moved or from_link is not null or is_taken_again
        or reached_at is null or reached_at <= started_at
),

nested as (
    select
        outer_one.start_id as outer_id,
        inner_one.start_id as inner_id,
        case when outer_one.source = 'alerts' and inner_one.from_link = outer_one.to_link
            and inner_one.standby_at < coalesce(inner_one.back_at, {{ never() }}) then inner_one.standby_at end as over_at
    from failovers as outer_one
    inner join failovers as inner_one
        on outer_one.router_id = inner_one.router_id
        and outer_one.chain = inner_one.chain
        and outer_one.closed_at > inner_one.started_at
        and (outer_one.started_at, outer_one.start_id) < (inner_one.started_at, inner_one.start_id)
),

outers as (
    select f.start_id, least(f.closed_at, min(n.over_at)) as closed_at,
        case when min(n.over_at) <= f.closed_at then 0 else f.is_untold end as is_untold
    from failovers as f
    left join nested as n on f.start_id = n.outer_id
    group by f.start_id, f.closed_at, f.is_untold
),

whole as (
    select
        n.inner_id as start_id,
        o.closed_at,
        o.is_untold
    from nested as n
    inner join outers as o on n.outer_id = o.start_id
    union all
    select start_id, closed_at, is_untold from outers
),

finals as (
    select
        f.*,
        w.over_at,
        w.is_told,
        lead(f.started_at) over track as next_started_at,
        lead(f.from_link) over track as next_from_link
    from failovers as f
    inner join (
        select
            start_id,
            nullif(min(closed_at), {{ never() }}) as over_at,
            min_by(is_untold, {{ ordered_struct(['closed_at', 'is_untold']) }}) = 0 as is_told
        from whole
        group by start_id
    ) as w on f.start_id = w.start_id
    window track as (partition by f.router_id order by f.started_at, f.start_id)
),

evidence as (
    select f.start_id, max(w.detected_at) as last_told_at
    from finals as f
    inner join {{ ref('int_wan_alerts') }} as w
        on f.router_id = w.router_id
        and w.detected_at >= f.started_at
        and (f.over_at is null or w.detected_at < f.over_at)
    where f.source = 'alerts' and not f.is_told
    group by f.start_id
),

-- Without an alert of the loss, what came back was lost.
returned as (
    select f.start_id, min(w.link) as link
    from finals as f
    inner join {{ ref('int_wan_states') }} as w
        on f.router_id = w.router_id
        and f.over_at = w.detected_at
        and w.wan_state = 'connected'
        and w.link is distinct from f.to_link
    where f.from_link is null and f.is_told
    group by f.start_id
),

named as (
    select
        f.*,
        case when f.is_moved then f.before_link else coalesce(f.from_link, r.link) end as lost_link,
        case
            when to_link is not null and taken_at < coalesce(over_at, {{ never() }})
                and taken_at < coalesce(next_started_at, {{ never() }}) then to_link
            when next_started_at < coalesce(over_at, {{ never() }}) and next_from_link <> from_link then next_from_link
        end as taken_link
    from finals as f
    left join returned as r on f.start_id = r.start_id
    where f.source = 'alerts'
)

select
    n.start_id as alert_id,
    n.router_id,

    case when n.lost_link not like 'any %' then n.lost_link end as from_interface,
    case when n.taken_link not like 'any %' then n.taken_link end as to_interface,
    n.is_told as is_end_known,

    n.started_at,
    case
        when n.is_told then n.over_at
        when n.over_at is not null then coalesce(e.last_told_at, n.started_at)
    end as ended_at,
    case when not n.is_told then coalesce(e.last_told_at, n.started_at) end as last_told_at,
    case when not n.is_told then n.over_at end as over_at

from named as n
left join evidence as e on n.start_id = e.start_id
