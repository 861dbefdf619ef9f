-- Grain: one row per carrier of a backup and UTC month.
-- Kind: table.

with episodes as (
    select
        *,
        coalesce(to_carrier, 'unknown') as carrier,
        cast(date_trunc('month', started_at) as date) as month_date,
        -- An episode without a known router overlaps no other one.
        coalesce(cast(router_id as {{ dbt.type_string() }}), episode_id) as holder,
        {{ seconds_after('started_at', 'duration_s') }} as until_at
    from {{ ref('failover_episodes') }}
),

-- Episodes of a router overlap when a backup fails too; overlapping time counts once.
spells as (
    {{ unbroken_spells('episodes', ['carrier', 'month_date', 'holder'], 'started_at', 'until_at', 'episode_id') }}
),

spent as (
    select
        carrier,
        month_date,
        {{ exact_sum(seconds_between('started_at', 'ended_at')) }} as backup_s
    from spells
    group by carrier, month_date
)

select
    e.carrier,
    e.month_date,

    count(*) as episodes,
    count(distinct e.router_id) as routers,
    max(s.backup_s) as backup_s,
    coalesce({{ whole_sum('e.backup_bytes') }}, 0) as backup_bytes,
    coalesce({{ exact_sum('e.cost', 4) }}, 0) as cost,
    {{ is_whole('a', 'e.month_date', 'month') }} as is_complete

from episodes as e
cross join {{ ref('int_as_of') }} as a
inner join spent as s on e.carrier = s.carrier and e.month_date = s.month_date
group by e.carrier, e.month_date, a.known_from, a.known_until
