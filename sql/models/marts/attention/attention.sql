-- Grain: one row per thing (router, interface, battery, endpoint, or outage) and reason to look at it today.
-- Kind: table.

with backups as (
    select
        'on_backup' as reason,
        case
            when unknown_since_at is not null then 'soon'
            when so_far_s >= {{ var('backup_urgent_s') }} or data_cap_pct >= {{ var('backup_cap_pct') }} then 'urgent'
            when so_far_s >= {{ var('backup_soon_s') }} then 'soon'
            else 'watch'
        end as severity,
        'failover_now' as mart,
        cast(router_id as {{ dbt.type_string() }}) as thing_id,
        router_id,
        cast(null as bigint) as net_device_id,
        cast(null as {{ dbt.type_string() }}) as battery_id,
        cast(null as {{ dbt.type_string() }}) as account_profile,
        cast(null as {{ dbt.type_string() }}) as endpoint,
        started_at as since_at,
        cast(null as {{ 'timestamp' if target.type == 'spark' else 'timestamp with time zone' }}) as due_at,
        concat_ws('',
            case when unknown_since_at is null then concat('On a backup for ', {{ duration_words('so_far_s') }})
                else concat(
                    'Last known on a backup ', {{ duration_words(seconds_between('unknown_since_at', 'as_of_at')) }},
                    ' ago, unknown since then'
                ) end,
            ': ', coalesce(to_interface, 'an unknown interface'),
            case when to_carrier is not null then concat(' (', to_carrier, ')') end,
            ' instead of ', coalesce(from_interface, 'an unknown interface'), '.',
            case when cause_reason is not null then concat(' Reason: ', cause_reason, '.') end,
            case when data_cap_pct is not null then concat(' Data cap used: ', {{ whole('data_cap_pct') }}, '%.') end
        ) as message
    from {{ ref('failover_now') }}
),

heard as (
    select distinct router_id
    from {{ ref('int_connection_events') }}
),

-- A device may have gone offline before the lake had any data, but not before it was registered. A
-- record may say offline without saying since when.
offline as (
    select
        r.router_id,
        least(s.started_at, greatest(s.began_at, coalesce(r.created_at, s.started_at))) as since_at,
        {{ seconds_between('least(s.started_at, greatest(s.began_at, coalesce(r.created_at, s.started_at)))',
            's.until_at') }} as offline_s
    from {{ ref('int_routers') }} as r
    left join {{ ref('int_offline_spells') }} as s on r.router_id = s.router_id and s.ended_at is null
    left join heard as h on r.router_id = h.router_id
    where r.left_at is null
        and (s.router_id is not null or (h.router_id is null and r.connection_state = 'offline'))
),

batteries as (
    select
        r.*,
        r.health_pct <= {{ var('battery_worn_pct') }} as is_worn,
        h.worn_at
    from {{ ref('battery_risk') }} as r
    left join {{ ref('battery_health') }} as h on r.battery_id = h.battery_id
    where r.health_pct <= {{ var('battery_aged_pct') }} or r.days_left <= {{ var('battery_later_days') }}
),

-- This month's lines, as far as the interface is still there.
capped as (
    select
        u.*,
        a.known_until,
        {{ day_start('u.month_date') }} + interval 1 month as month_ends_at
    from {{ ref('data_usage_month') }} as u
    cross join {{ ref('int_as_of') }} as a
    inner join {{ ref('int_interfaces') }} as i
        on u.net_device_id = i.net_device_id
        and i.until_at is null
        and i.seen_until is null
    where u.month_date = cast(date_trunc('month', a.known_until) as date)
        and (u.total_bytes > u.cap_bytes or u.is_over_cap_projected)
),

sums as (
    select
        d.net_device_id,
        d.first_sampled_at,
        l.cap_bytes,
        sum(d.total_bytes) over (
            partition by d.net_device_id order by d.usage_date
            rows between unbounded preceding and current row
        ) as bytes_so_far
    from {{ ref('data_usage_daily') }} as d
    inner join capped as l on d.net_device_id = l.net_device_id and d.usage_date >= l.month_date
),

passed as (
    select net_device_id, min(first_sampled_at) as passed_at
    from sums
    where bytes_so_far > cap_bytes
    group by net_device_id
),

caps as (
    select
        l.*,
        p.passed_at,
        case when l.total_bytes <= l.cap_bytes then {{ seconds_after(
            'l.known_until',
            'round((l.cap_bytes - l.total_bytes) * 1e0 / nullif(l.projected_bytes - l.total_bytes, 0) * '
            ~ seconds_between('l.known_until', 'l.month_ends_at') ~ ')'
        ) }} end as due_at
    from capped as l
    left join passed as p on l.net_device_id = p.net_device_id
),

flaps as (
    select
        router_id,
        flap_group_id,
        max(flap_group_episodes) as episodes,
        max(case when is_open then 1 else 0 end) as open_episodes,
        min(started_at) as since_at,
        max({{ seconds_after('started_at', 'duration_s') }}) as until_at
    from {{ ref('failover_episodes') }}
    where is_flapping and router_id is not null
    group by router_id, flap_group_id
),

flapping as (
    select
        f.*,
        {{ seconds_between('f.until_at', 'a.known_until') }} as quiet_s,
        row_number() over (partition by f.router_id order by f.since_at desc, f.flap_group_id) as newness
    from flaps as f
    cross join {{ ref('int_as_of') }} as a
),

unlocated as (
    select g.*, o.router_id is not null as is_offline
    from {{ ref('location_gaps') }} as g
    left join offline as o on g.router_id = o.router_id
    where g.is_open
),

gaps as (
    select
        account_profile,
        endpoint,
        count(*) as gaps,
        min(start_at) as since_at,
        {{ exact_sum(seconds_between('start_at', 'end_at')) }} as lost_s
    from {{ source('meta', 'gaps') }}
    where acknowledged_at is null
    group by account_profile, endpoint
),

ending as (
    select *, {{ seconds_between('as_of_at', 'ends_at') }} as left_s
    from {{ ref('licences') }}
    where router_id is not null and not is_renewed
        and {{ seconds_between('as_of_at', 'ends_at') }} between -86400 * {{ var('licence_ended_days') }}
            and 86400 * {{ var('licence_watch_days') }}
),

-- Whether or not it ever had one: a licence that has just ended, or will, has a row of its own.
unlicensed as (
    select
        asset_endpoint_id,
        router_id,
        max(ends_at) as ended_at,
        {{ last_by('coalesce(licence, subscription_name)', ['ends_at', 'assignment_id']) }} as licence,
        {{ seconds_between('max(ends_at)', 'max(as_of_at)') }} as ended_s
    from {{ ref('licences') }}
    where router_id is not null
    group by asset_endpoint_id, router_id
    having count(case when licence_state in ('unlicensed', 'ended') then 1 end) = count(*)
),

reasons as (
    select * from backups

    union all

    select
        'offline' as reason,
        case when offline_s < {{ var('offline_urgent_s') }} then 'soon' else 'urgent' end as severity,
        'device_availability_daily' as mart,
        cast(router_id as {{ dbt.type_string() }}) as thing_id,
        router_id, null, null, null, null,
        since_at,
        null as due_at,
        case when since_at is null then 'Offline; since when is unknown.'
            else concat('Offline for ', {{ duration_words('offline_s') }}, '.') end as message
    from offline

    union all

    select
        'battery_to_change' as reason,
        case
            when is_worn then 'urgent'
            when days_left <= {{ var('battery_soon_days') }} then 'soon'
            else 'watch'
        end as severity,
        'battery_risk' as mart,
        battery_id as thing_id,
        router_id, null, battery_id, null, null,
        case when is_worn then worn_at end as since_at,
        case when not is_worn then predicted_worn_at end as due_at,
        case when is_worn then concat('The battery is worn out: health is ', {{ whole('health_pct') }}, '%.')
            when days_left <= {{ var('battery_later_days') }} then concat(
                'The battery will be worn out in about ', {{ whole('greatest(days_left, 0)') }},
                case when round(days_left) = 1 then ' day' else ' days' end,
                ' if the rate of the last ', {{ whole('trend_days') }}, ' days stays; health is ', {{ whole('health_pct') }}, '%.'
            )
            else concat('The battery is not far from worn out: health is ', {{ whole('health_pct') }}, '%.')
        end as message
    from batteries

    union all

    select
        'data_cap' as reason,
        case
            when total_bytes > cap_bytes then 'urgent'
            when {{ seconds_between('known_until', 'due_at') }} <= 86400 * {{ var('cap_soon_days') }} then 'soon'
            else 'watch'
        end as severity,
        'data_usage_month' as mart,
        -- A cap is passed or kept month by month.
        concat(net_device_id, ' ', cast(month_date as {{ dbt.type_string() }})) as thing_id,
        router_id, net_device_id, null, null, null,
        passed_at as since_at,
        due_at,
        concat_ws('',
            coalesce(interface, 'An interface'), case when carrier is not null then concat(' (', carrier, ')') end,
            case when total_bytes > cap_bytes then ' is over its monthly data cap: '
                else concat(' will reach its monthly data cap in ',
                    {{ duration_words(seconds_between('known_until', 'due_at')) }}, ': ') end,
            {{ gigabytes('total_bytes') }}, ' of ', {{ gigabytes('cap_bytes') }}, ' GB used, ',
            {{ gigabytes('projected_bytes') }}, ' GB expected by the end of the month.'
        ) as message
    from caps

    union all

    select
        'flapping' as reason,
        case when open_episodes = 1 or quiet_s <= {{ var('flap_gap_s') }} then 'soon' else 'watch' end as severity,
        'failover_episodes' as mart,
        cast(router_id as {{ dbt.type_string() }}) as thing_id,
        router_id, null, null, null, null,
        since_at,
        null as due_at,
        concat(
            'The WAN link is flapping: ', {{ whole('episodes') }}, ' failovers in a row, ',
            case when open_episodes = 1 then 'the last one is not over.'
                else concat('the last one ended ', {{ duration_words('quiet_s') }}, ' ago.') end
        ) as message
    from flapping
    where newness = 1 and quiet_s <= {{ var('flap_recent_s') }}

    union all

    select
        'not_located' as reason,
        case when is_offline then 'watch' else 'soon' end as severity,
        'location_gaps' as mart,
        cast(router_id as {{ dbt.type_string() }}) as thing_id,
        router_id, null, null, null, null,
        last_fixed_at as since_at,
        null as due_at,
        concat(
            'Not located for ', {{ duration_words('gap_hours * 3600') }},
            case when is_offline then '; the device is offline.' else '.' end
        ) as message
    from unlocated

    union all

    select
        'licence' as reason,
        case
            when left_s <= 86400 * {{ var('licence_urgent_days') }} then 'urgent'
            when left_s <= 86400 * {{ var('licence_soon_days') }} then 'soon'
            else 'watch'
        end as severity,
        'licences' as mart,
        assignment_id as thing_id,
        router_id, null, null, null, null,
        case when left_s <= 0 then ends_at end as since_at,
        case when left_s > 0 then ends_at end as due_at,
        concat(
            'The licence ', coalesce(licence, subscription_name),
            case when left_s <= 0 then concat(' ended ', {{ duration_words('-left_s') }}, ' ago.')
                else concat(' ends in ', {{ duration_words('left_s') }}, '.') end
        ) as message
    from ending

    union all

    select
        'licence' as reason,
        'soon' as severity,
        'licences' as mart,
        concat('device ', asset_endpoint_id) as thing_id,
        router_id, null, null, null, null,
        ended_at as since_at,
        null as due_at,
        case when ended_at is null then 'The device has no licence.'
            else concat('The device has no licence: ', licence, ' ended ', {{ duration_words('ended_s') }}, ' ago.') end as message
    from unlicensed
    where ended_at is null or ended_s > 86400 * {{ var('licence_ended_days') }}

    union all

    select
        'data_gap' as reason,
        'soon' as severity,
        'pipeline_freshness' as mart,
        concat(account_profile, ' ', endpoint) as thing_id,
        null, null, null, account_profile, endpoint,
        since_at,
        null as due_at,
        concat(
            'Data is missing for good: ', {{ whole('gaps') }}, case when gaps = 1 then ' range' else ' ranges' end,
            ' of ', endpoint, ', ', {{ duration_words('lost_s') }},
            ' in all. Once you know it, run `fleetlake records gaps acknowledge`.'
        ) as message
    from gaps
),

-- A device that left the service needs no attention.
present as (
    select n.*, r.account_id, r.group_id, r.router_name, r.account_name, r.group_name
    from reasons as n
    left join {{ ref('int_routers') }} as r on n.router_id = r.router_id
    where r.left_at is null
),

-- What a device shares with others, and so may have failed with them. A device on a backup lost a line of the
-- carrier that it came from; one that is offline, all of its lines.
lines as (
    select distinct i.router_id, i.carrier
    from {{ ref('int_interfaces') }} as i
    inner join {{ ref('int_routers') }} as r on i.router_id = r.router_id and r.left_at is null
    where i.until_at is null and i.seen_until is null and i.carrier is not null and i.net_device_mode = 'wan'
),

belonging as (
    select 'carrier' as kind, carrier as shared_id, router_id from lines

    union all

    select 'group', cast(group_id as {{ dbt.type_string() }}), router_id
    from {{ ref('int_routers') }}
    where left_at is null and group_id is not null

    union all

    select 'account', cast(account_id as {{ dbt.type_string() }}), router_id
    from {{ ref('int_routers') }}
    where left_at is null and account_id is not null
),

sizes as (
    select kind, shared_id, count(*) as devices
    from belonging
    group by kind, shared_id
),

troubled as (
    select n.*, lost.from_carrier
    from present as n
    left join {{ ref('failover_now') }} as b on n.reason = 'on_backup' and n.router_id = b.router_id
    left join {{ ref('failover_episodes') }} as lost on b.episode_id = lost.episode_id
    where n.reason in ('on_backup', 'offline') and n.since_at is not null
),

shared as (
    select
        t.reason,
        t.severity,
        t.router_id,
        t.account_id,
        t.account_name,
        t.group_id,
        t.group_name,
        t.since_at,
        b.kind,
        b.shared_id,
        case when {{ seconds_between(
            'lag(t.since_at) over (partition by b.kind, b.shared_id order by t.since_at, t.router_id)', 't.since_at'
        ) }} <= {{ var('outage_within_s') }} then 0 else 1 end as is_apart
    from troubled as t
    inner join belonging as b on t.router_id = b.router_id
    where t.reason = 'offline' or b.kind <> 'carrier' or b.shared_id = t.from_carrier
),

spells as (
    select
        *,
        sum(is_apart) over (
            partition by kind, shared_id order by since_at, router_id rows between unbounded preceding and current row
        ) as spell
    from shared
),

together as (
    select
        kind,
        shared_id,
        spell,
        count(distinct router_id) as devices,
        count(distinct case when reason = 'offline' then router_id end) as offline_devices,
        min(case severity when 'urgent' then 1 when 'soon' then 2 else 3 end) as severity_rank,
        {% for column in ['account_id', 'account_name', 'group_id', 'group_name'] %}
        case when count({{ column }}) = count(*) and min({{ column }}) = max({{ column }}) then min({{ column }}) end
            as {{ column }},
        {% endfor %}
        min(since_at) as since_at,
        max(since_at) as last_at
    from spells
    group by kind, shared_id, spell
),

-- The id names the first failure, so that two outages of a carrier are two.
outages as (
    select
        t.*,
        s.devices as all_devices,
        concat('outage ', t.kind, ' ', t.shared_id, ' ', {{ whole(seconds_between(
            "cast('1970-01-01 00:00:00+00:00' as " ~ ('timestamp' if target.type == 'spark' else 'timestamp with time zone') ~ ")",
            't.since_at'
        )) }}) as attention_id
    from together as t
    inner join sizes as s on t.kind = s.kind and t.shared_id = s.shared_id
    where t.devices >= {{ var('outage_devices') }}
        and t.devices * 100 >= s.devices * {{ var('outage_pct') }}
),

-- A device belongs to the largest outage that it is in.
chosen as (
    select
        p.router_id,
        p.reason,
        o.attention_id,
        row_number() over (
            partition by p.router_id, p.reason order by o.devices desc, o.kind, o.attention_id
        ) as place
    from spells as p
    inner join outages as o on p.kind = o.kind and p.shared_id = o.shared_id and p.spell = o.spell
),

parents as (
    select router_id, reason, attention_id as parent_id from chosen where place = 1
),

findings as (
    select
        concat(n.reason, ' ', n.thing_id) as attention_id,
        n.reason,
        n.severity,
        n.mart,
        c.parent_id,
        cast(null as bigint) as devices,
        n.router_id,
        n.account_id,
        n.group_id,
        n.net_device_id,
        n.battery_id,
        n.account_profile,
        n.endpoint,
        n.router_name,
        n.account_name,
        n.group_name,
        n.message,
        n.since_at,
        n.due_at
    from present as n
    left join parents as c on n.router_id = c.router_id and n.reason = c.reason

    union all

    select
        o.attention_id,
        'outage' as reason,
        case o.severity_rank when 1 then 'urgent' when 2 then 'soon' else 'watch' end as severity,
        'attention' as mart,
        null as parent_id,
        o.devices,
        null as router_id,
        o.account_id,
        o.group_id,
        null as net_device_id,
        null as battery_id,
        null as account_profile,
        null as endpoint,
        null as router_name,
        o.account_name,
        o.group_name,
        concat_ws('',
            {{ whole('o.devices') }}, ' of the ', {{ whole('o.all_devices') }}, ' devices of ',
            -- Coarse snapshots show messages, so none of them names a group or an account.
            case when o.kind = 'carrier' then concat('the carrier ', o.shared_id) else concat('one ', o.kind) end,
            ' failed within ',
            {{ duration_words('greatest(' ~ seconds_between('o.since_at', 'o.last_at') ~ ', 60)') }}, ': ',
            {{ whole('o.offline_devices') }}, ' offline, ', {{ whole('o.devices - o.offline_devices') }}, ' on a backup.'
        ) as message,
        o.since_at,
        null as due_at
    from outages as o
    where o.attention_id in (select parent_id from parents)
)

select
    f.attention_id,
    f.reason,
    f.severity,
    cast(case f.severity when 'urgent' then 1 when 'soon' then 2 else 3 end as bigint) as severity_rank,
    f.mart,
    f.parent_id,
    f.devices,

    f.router_id,
    f.account_id,
    f.group_id,
    f.net_device_id,
    f.battery_id,
    f.account_profile,
    f.endpoint,

    f.router_name,
    f.account_name,
    f.group_name,
    f.message,

    f.since_at,
    f.due_at,
    a.known_until as as_of_at

from findings as f
cross join {{ ref('int_as_of') }} as a
