-- Grain: one row per router and UTC day with time on a backup.
-- Kind: table.

-- Episodes overlap when a backup fails too; overlapping time counts once.
with spells as (
    {{ by_day(ref('int_backup_spells'), ['router_id'], 'started_at', 'ended_at') }}
),

spent as (
    select
        router_id,
        day_date,
        {{ seconds_of_day(seconds_between('from_at', 'until_at')) }} as backup_s
    from spells
    group by router_id, day_date
)

select
    d.router_id,
    e.router_name,
    r.account_name,
    r.group_name,
    d.episode_date as failover_date,

    count(*) as episodes,
    count(case when cast(e.started_at as date) = d.episode_date then 1 end) as episodes_started,
    max(s.backup_s) as backup_s,
    round(max({{ seconds_between('d.started_at', 'd.ended_at') }}), 3) as longest_s,
    {{ whole_sum('u.backup_bytes') }} as backup_bytes,
    {{ is_whole('a', 'd.episode_date', 'day') }} as is_complete,

    min(d.started_at) as first_started_at,
    max(d.ended_at) as last_ended_at

from {{ ref('int_episode_days') }} as d
inner join {{ ref('failover_episodes') }} as e on d.episode_id = e.episode_id
left join {{ ref('int_routers') }} as r on d.router_id = r.router_id
cross join {{ ref('int_as_of') }} as a
inner join spent as s on d.router_id = s.router_id and d.episode_date = s.day_date
left join {{ ref('int_episode_usage') }} as u
    on d.episode_id = u.episode_id and d.episode_date = u.episode_date
where d.router_id is not null
group by d.router_id, e.router_name, r.account_name, r.group_name, d.episode_date, a.known_from, a.known_until
