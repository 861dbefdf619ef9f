-- Grain: one row per vehicle and local day, from its first trip on, also of days without a trip.
-- Kind: table.

with trips as (
    select
        router_id,
        trip_id,
        coalesce(local_time_zone, 'UTC') as zone_name,
        started_at,
        ended_at,
        distance_km,
        duration_s,
        idle_s,
        fast_s
    from {{ ref('trips') }}
),

-- A trip over midnight is divided: each day has the share of its time.
spells as (
    {{ by_day('trips', ['router_id', 'trip_id', 'zone_name'], 'started_at', 'ended_at') }}
),

parts as (
    select
        s.router_id,
        s.trip_id,
        d.local_date,
        sum({{ overlap_s('s.from_at', 's.until_at', 'd.from_at', 'd.until_at') }}) as part_s
    from spells as s
    inner join {{ ref('int_local_days') }} as d
        on s.zone_name = d.time_zone and s.day_date = d.day_date
        and s.from_at < d.until_at and s.until_at > d.from_at
    group by s.router_id, s.trip_id, d.local_date
),

driven as (
    select
        p.router_id,
        p.local_date,
        t.trip_id,
        t.started_at,
        t.ended_at,
        row_number() over (partition by p.router_id, p.trip_id order by p.local_date) = 1 as begins,
        row_number() over (partition by p.router_id, p.trip_id order by p.local_date desc) = 1 as ends,
        p.part_s / sum(p.part_s) over (partition by p.router_id, p.trip_id) as share,
        t.distance_km,
        t.duration_s,
        t.idle_s,
        t.fast_s
    from parts as p
    inner join trips as t on p.router_id = t.router_id and p.trip_id = t.trip_id
),

days_driven as (
    select
        router_id,
        local_date,
        sum(case when begins then 1 else 0 end) as trips,
        {{ exact_sum('distance_km * share', 6) }} as distance_km,
        {{ exact_sum('(duration_s - idle_s) * share', 6) }} as driving_s,
        {{ exact_sum('idle_s * share', 6) }} as idle_s,
        {{ exact_sum('fast_s * share', 6) }} as fast_s,
        min(case when begins then started_at end) as first_started_at,
        max(case when ends then ended_at end) as last_ended_at
    from driven
    group by router_id, local_date
),

days_stopped as (
    select
        s.router_id,
        d.local_date,
        count(*) as stops
    from {{ ref('stops') }} as s
    left join {{ ref('int_router_zones') }} as z on s.router_id = z.router_id
    inner join {{ ref('int_local_days') }} as d
        on coalesce(z.time_zone, 'UTC') = d.time_zone
        and {{ utc_date('s.arrived_at') }} = d.day_date
        and s.arrived_at >= d.from_at and s.arrived_at < d.until_at
    where s.arrived_by_trip_id is not null
    group by s.router_id, d.local_date
),

-- A vehicle has days until it leaves the service.
used as (
    select
        u.router_id,
        z.time_zone,
        min(u.local_date) as first_date,
        max(least(coalesce(r.left_at, a.known_until), a.known_until)) as seen_until
    from days_driven as u
    left join {{ ref('int_router_zones') }} as z on u.router_id = z.router_id
    left join {{ ref('int_routers') }} as r on u.router_id = r.router_id
    cross join {{ ref('int_as_of') }} as a
    group by u.router_id, z.time_zone
),

calendar as (
    select
        u.router_id,
        u.time_zone,
        d.local_date
    from used as u
    inner join (
        select
            time_zone,
            local_date,
            min(from_at) as begins_at
        from {{ ref('int_local_days') }}
        group by time_zone, local_date
    ) as d
        on coalesce(u.time_zone, 'UTC') = d.time_zone
        and d.local_date >= u.first_date and d.begins_at <= u.seen_until

    union

    select
        v.router_id,
        u.time_zone,
        v.local_date
    from days_driven as v
    inner join used as u on v.router_id = u.router_id
),

counted as (
    select
        c.router_id,
        c.time_zone,
        c.local_date,
        v.trips,
        s.stops,
        v.distance_km,
        v.driving_s,
        v.idle_s,
        v.fast_s,
        v.first_started_at,
        v.last_ended_at,
        max(case when v.router_id is not null then c.local_date end) over (
            partition by c.router_id order by c.local_date rows unbounded preceding
        ) as last_used_date
    from calendar as c
    left join days_driven as v on c.router_id = v.router_id and c.local_date = v.local_date
    left join days_stopped as s on c.router_id = s.router_id and c.local_date = s.local_date
)

select
    c.router_id,

    r.router_name,
    r.account_name,
    r.group_name,
    c.time_zone as local_time_zone,
    c.local_date = c.last_used_date as is_used,

    cast(coalesce(c.trips, 0) as bigint) as trips,
    cast(coalesce(c.stops, 0) as bigint) as stops,
    coalesce(round(c.distance_km, 3), 0) as distance_km,
    coalesce(round(c.driving_s, 1), 0) as driving_s,
    coalesce(round(c.idle_s, 1), 0) as idle_s,
    coalesce(round(c.fast_s, 1), 0) as fast_s,
    cast({{ seconds_between(day_start('c.last_used_date'), day_start('c.local_date')) }} / 86400 as bigint) as unused_days,

    c.local_date,
    c.first_started_at,
    c.last_ended_at

from counted as c
left join {{ ref('int_routers') }} as r on c.router_id = r.router_id
