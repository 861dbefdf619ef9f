-- Grain: one row per device and UTC day that the lake has data for.
-- Kind: table.

-- Before a device first came online its state is unknown: it may not have been installed yet.
-- Without any event, only the record can say that the device is connected.
with known as (
    select
        d.router_id,
        d.router_name,
        d.account_name,
        d.group_name,
        d.day_date,
        case
            when t.first_online_at < t.first_offline_at or t.first_offline_at is null
                then greatest(d.from_at, coalesce(t.first_online_at, d.from_at))
            else d.from_at
        end as from_at,
        d.until_at
    from {{ ref('int_router_days') }} as d
    inner join {{ ref('int_routers') }} as r on d.router_id = r.router_id
    left join {{ ref('int_first_states') }} as t on d.router_id = t.router_id
    where coalesce(t.first_online_at, t.first_offline_at) is not null or r.connection_state = 'online'
),

spells as (
    {{ by_day(ref('int_offline_spells'), ['router_id'], 'started_at', 'until_at') }}
),

measured as (
    select
        d.router_id,
        d.router_name,
        d.account_name,
        d.group_name,
        d.day_date as available_date,
        {{ seconds_between('d.from_at', 'd.until_at') }} as known_s,
        count(s.router_id) as offline_spells,
        {{ exact_sum('case when s.router_id is null then 0 else '
            ~ overlap_s('s.from_at', 's.until_at', 'd.from_at', 'd.until_at') ~ ' end') }} as offline_s,
        max(case when s.router_id is null then 0 else
            {{ overlap_s('s.from_at', 's.until_at', 'd.from_at', 'd.until_at') }} end) as longest_offline_s
    from known as d
    left join spells as s
        on d.router_id = s.router_id
        and d.day_date = s.day_date
        and s.from_at < d.until_at
        and (s.until_at > d.from_at or s.from_at >= d.from_at)
    where d.from_at < d.until_at
    group by d.router_id, d.router_name, d.account_name, d.group_name, d.day_date, d.from_at, d.until_at
),

-- State samples are a second source. A sample covers its whole period; if two periods overlap, the
-- earlier sample counts.
covering as (
    select
        router_id,
        connection_state,
        cast(sampled_at as date) as sample_date,
        {{ newly_covered_s(
            seconds_after('sampled_at', '-1 * coalesce(' ~ period_length('period_s') ~ ', 0)'), 'sampled_at',
            ['router_id', 'cast(sampled_at as date)'], 'sample_id'
        ) }} as covered_s
    from {{ ref('stg_router_state_samples') }}
),

sampled as (
    select
        router_id,
        sample_date,
        round({{ seconds_of_day('covered_s', 6) }}) as sampled_s,
        round({{ seconds_of_day("case when connection_state = 'offline' then covered_s else 0 end", 6) }}) as sampled_offline_s
    from covering
    group by router_id, sample_date
)

select
    m.router_id,
    m.router_name,
    m.account_name,
    m.group_name,
    m.available_date,
    m.offline_spells,
    round(m.known_s, 3) as known_s,
    m.known_s >= 86400 as is_complete,
    least(m.offline_s, round(m.known_s, 3)) as offline_s,
    round(m.longest_offline_s, 3) as longest_offline_s,
    round(100 * (1 - least(m.offline_s / m.known_s, 1)), 4) as available_pct,
    {{ whole_number('s.sampled_s') }} as sampled_s,
    {{ whole_number('s.sampled_offline_s') }} as sampled_offline_s
from measured as m
left join sampled as s on m.router_id = s.router_id and m.available_date = s.sample_date
