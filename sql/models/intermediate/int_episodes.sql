-- Grain: one row per failover episode, from its record or, where that is missing, from alerts.
-- Kind: table.

-- A record that ends before it begins is a zero-length episode: its columns are kept, and its
-- time counts nowhere. An open episode ends when its router leaves the service. An episode lies
-- within the time that the lake has data for; a start or end that lies outside is moved to the edge.
{{ config(materialized='table') }}

with recorded as (
    select
        failover_id as episode_id,
        'record' as source,
        account_id as record_account_id,
        group_id as record_group_id,
        router_id,
        from_interface,
        to_interface,
        from_priority,
        to_priority,
        to_carrier as record_carrier,
        usage_bytes as record_bytes,
        data_cap_pct,
        started_at as stamped_start_at,
        ended_at as stamped_end_at,
        ended_at is not null as is_end_known,
        null as last_told_at,
        null as over_at
    from {{ ref('stg_failovers') }}

    union all

    select
        alert_id as episode_id,
        'alerts' as source,
        null as record_account_id,
        null as record_group_id,
        router_id,
        from_interface,
        to_interface,
        null as from_priority,
        null as to_priority,
        null as record_carrier,
        null as record_bytes,
        null as data_cap_pct,
        started_at as stamped_start_at,
        ended_at as stamped_end_at,
        is_end_known,
        last_told_at,
        over_at
    from {{ ref('int_failovers_unrecorded') }}
),

dated as (
    select
        e.*,
        {{ first_evidence('r', 'a') }} as known_from,
        a.known_until,
        r.left_at
    from recorded as e
    cross join {{ ref('int_as_of') }} as a
    left join {{ ref('int_routers') }} as r on e.router_id = r.router_id
),

-- If no alert said for long that a failover lasts, it is unknown whether it does. Then it ends with the
-- last evidence, as one does that is over without an alert that says so.
told as (
    select
        *,
        case
            when stamped_end_at is not null then stamped_end_at
            when {{ seconds_between('last_told_at', 'least(known_until, coalesce(left_at, known_until))') }}
                > {{ var('backup_evidence_s') }} then last_told_at
        end as last_at
    from dated
),

-- Where the start lies in the future, the end is the better evidence.
ended as (
    select
        *,
        case when last_at is not null then least(greatest(last_at, known_from), known_until) end as ended_at
    from told
),

episodes as (
    select
        *,
        case when stamped_start_at > known_until then coalesce(ended_at, known_until)
            else greatest(stamped_start_at, known_from) end as started_at,
        coalesce(stamped_start_at < known_from or stamped_start_at > known_until, false)
            or coalesce(stamped_end_at <> ended_at, false) as is_bounded
    from ended
)

select
    e.*,
    e.ended_at is null and e.left_at is null as is_open,
    greatest(coalesce(e.ended_at, least(e.known_until, coalesce(e.left_at, e.known_until))), e.started_at) as until_at,
    -- Until then it is unknown whether the router was still on the backup.
    case when e.last_told_at is not null and e.ended_at is not null then
        greatest(least(e.known_until, coalesce(e.over_at, e.left_at, e.known_until)), e.ended_at)
    end as unknown_until_at,
    e.last_told_at is not null and e.ended_at is not null and e.over_at is null and e.left_at is null as is_unsure,
    lost.carrier as from_carrier,
    coalesce(e.record_carrier, backup.carrier) as to_carrier,
    backup_name.net_device_id as backup_net_device_id,
    backup_name.until_at as backup_until_at

from episodes as e
left join {{ ref('int_interface_names') }} as lost_name
    on e.router_id = lost_name.router_id
    and e.from_interface = lost_name.interface
    and {{ holds_at('lost_name', 'e.started_at') }}
left join {{ ref('int_interfaces') }} as lost
    on lost_name.net_device_id = lost.net_device_id
    and {{ holds_at('lost', 'e.started_at') }}
left join {{ ref('int_interface_names') }} as backup_name
    on e.router_id = backup_name.router_id
    and e.to_interface = backup_name.interface
    and {{ holds_at('backup_name', 'e.started_at') }}
left join {{ ref('int_interfaces') }} as backup
    on backup_name.net_device_id = backup.net_device_id
    and {{ holds_at('backup', 'e.started_at') }}
