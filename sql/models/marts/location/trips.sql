-- Grain: one row per router and trip: from one stop to the next.
-- Kind: incremental. A unit is a router and UTC day on which trips begin.

{{ config(
    materialized='incremental', incremental_strategy='append',
    meta={'unit': ['router_id', 'trip_date']},
    pre_hook="{{ forget_found(touched_trip_days()) }}",
    post_hook="{{ remember_built() }}"
) }}

with {% if is_incremental() -%}
first_touched as (
    select router_id, min(trip_date) as first_date from {{ touched_table() }} group by router_id
),

-- A trip depends on the fixes since the stop before it, and on a few fixes before that stop. The four
-- trips before the touched days hold more than these, so reading starts with the first of the four,
-- or a day before the touched days if that is later.
earlier as (
    select
        t.router_id,
        t.started_at,
        row_number() over (partition by t.router_id order by t.started_at desc) as trips_back
    from {{ this }} as t
    inner join first_touched as f on t.router_id = f.router_id
    where t.trip_date < f.first_date and t.trip_date >= f.first_date - 2
),

reach as (
    select
        f.router_id,
        greatest({{ day_start('f.first_date') }} - interval 1 day, e.started_at) as read_from
    from first_touched as f
    left join earlier as e on f.router_id = e.router_id and e.trips_back = 4
),

{% endif -%}
fixes as (
    select
        p.router_id,
        fix_id,
        carrier,
        latitude_deg,
        longitude_deg,
        speed_kmh as reported_kmh,
        rsrp_dbm,
        sinr_db,
        signal_pct,
        fix_date,
        fixed_at,
        row_number() over track as place,
        lag(fixed_at) over track as last_fixed_at,
        max(speed_kmh) over (partition by p.router_id, {{ slot_of('fixed_at', 30) }}) as top_kmh
    from {{ ref('location_track_points') }} as p
    {% if is_incremental() %}
    inner join reach as r on p.router_id = r.router_id and p.fixed_at >= r.read_from
    {% endif %}
    where quality = 'good'
    {% if is_incremental() %}
        and fixed_at >= {{ day_start(touched_from()) }} - interval 1 day
    {% endif %}
    window track as (partition by p.router_id order by fixed_at, fix_id)
),

-- The way is measured from ten seconds to ten seconds: between closer fixes, the noise of the
-- positions is longer than the way. A step between two fixes that report standing is noise.
spaced as (
    select
        *,
        {{ slot_of('fixed_at', 30) }} is distinct from {{ slot_of('last_fixed_at', 30) }} as is_point,
        lag(latitude_deg) over track as step_lat,
        lag(longitude_deg) over track as step_lon,
        lag(reported_kmh) over track as step_kmh,
        lag(fixed_at) over track as step_at
    from fixes
    where {{ slot_of('fixed_at', 6) }} is distinct from {{ slot_of('last_fixed_at', 6) }}
    window track as (partition by router_id order by place)
),

stepped as (
    select
        *,
        {{ seconds_between('step_at', 'fixed_at') }} as step_s,
        coalesce({{ distance_m('step_lat', 'step_lon', 'latitude_deg', 'longitude_deg') }}, 0) as step_m
    from spaced
),

walked as (
    select
        *,
        sum(case
            when step_s <= 15 and abs((reported_kmh + step_kmh) / 7.2 * step_s - step_m) < {{ var('noise_m') }}
                then (reported_kmh + step_kmh) / 7.2 * step_s
            when greatest(reported_kmh, step_kmh) < {{ var('standing_kmh') }} and step_m < {{ var('noise_m') }} then 0
            else step_m
        end) over (partition by router_id order by place rows unbounded preceding) as walked_m
    from stepped
),

-- Driving and standing are judged from half a minute to half a minute.
points as (
    select
        *,
        {{ seconds_between(epoch_start(), 'fixed_at') }} as at_s,
        lag(fixed_at) over track as before_at,
        lag(latitude_deg) over track as before_lat,
        lag(longitude_deg) over track as before_lon,
        walked_m - lag(walked_m) over track as steps_m,
        place - lag(place) over track as leg_fixes
    from walked
    where is_point
    window track as (partition by router_id order by place)
),

legs as (
    select
        *,
        {{ seconds_between('before_at', 'fixed_at') }} as leg_s,
        coalesce({{ distance_m('before_lat', 'before_lon', 'latitude_deg', 'longitude_deg') }}, 0) as leg_m,
        {% for value, name in [('at_s', 's'), ('latitude_deg', 'lat'), ('longitude_deg', 'lon')] %}
        {{ trend_point('lag', '<= at_s -', value) }} as back_{{ name }},
        {{ trend_point('lead', '>= at_s +', value) }} as ahead_{{ name }}{{ '' if loop.last else ',' }}
        {% endfor %}
    from points
    window track as (partition by router_id order by place)
),

followed as (
    select
        *,
        lag(leg_s) over track as came_s,
        lag(leg_m) over track as came_m,
        lead(leg_s) over track as after_s,
        coalesce(lead(leg_m) over track, 0) as after_m,
        lead(leg_s, 2) over track as then_s,
        lead(leg_m, 2) over track as then_m,
        lag(ahead_s) over track as from_s,
        lag(ahead_lat) over track as from_lat,
        lag(ahead_lon) over track as from_lon
    from legs
    window track as (partition by router_id order by place)
),

-- If a device sends no speed, the speed comes from the legs before and after a fix.
paced as (
    select
        *,
        coalesce(reported_kmh, {{ paced_kmh() }}) as speed_kmh,
        case when back_s >= at_s - leg_s - {{ var('stop_s') }} then back_lat else before_lat end as trend_lat,
        case when back_s >= at_s - leg_s - {{ var('stop_s') }} then back_lon else before_lon end as trend_lon,
        case when from_s <= at_s + {{ var('stop_s') }} then from_lat else latitude_deg end as trended_lat,
        case when from_s <= at_s + {{ var('stop_s') }} then from_lon else longitude_deg end as trended_lon
    from followed
),

-- A leg is either driven or standing. A leg of less than half a minute is rated by the reported
-- speed, because positions are only accurate to some metres. Without a reported speed, it is
-- driven if it is as long as half a minute of moving. A leg that is too fast ends at a wrong fix that
-- could not be told from a right one.
judged as (
    select
        *,
        case
            when leg_s is null or leg_s >= {{ var('trip_gap_s') }} then false
            when 3.6 * leg_m > {{ var('fastest_kmh') }} * leg_s and leg_m > {{ var('near_m') }} then false
            when 3.6 * leg_m < {{ var('moving_kmh') }} * leg_s then false
            when leg_s >= {{ var('stop_s') }} then 3.6 * leg_m >= {{ var('strolling_kmh') }} * leg_s
            when greatest(coalesce(lag(speed_kmh) over track, 0), speed_kmh) < {{ var('moving_kmh') }}
                then leg_m >= {{ var('shortest_trip_m') }}
            when coalesce(reported_kmh, lag(reported_kmh) over track) is not null then true
            else leg_m >= {{ var('noise_m') }}
                or {{ distance_m('trend_lat', 'trend_lon', 'trended_lat', 'trended_lon') }} >= {{ var('noise_m') }}
        end as is_driven,
        case when leg_m < {{ var('noise_m') }} and reported_kmh is null then leg_m else steps_m end as way_m,
        sum(case when leg_m < {{ var('noise_m') }} and reported_kmh is null then leg_m else steps_m end) over (
            partition by router_id order by place rows unbounded preceding
        ) as path_m,
        coalesce(lag(speed_kmh) over track, 0) as before_kmh,
        coalesce(lag(speed_kmh, 2) over track, 0) as came_kmh,
        lag(before_at) over track as came_at,
        lag(before_lat) over track as came_lat,
        lag(before_lon) over track as came_lon,
        coalesce(lead(speed_kmh) over track, 0) as after_kmh,
        lead(fixed_at) over track as after_at,
        last_value(fixed_at) over (
            partition by router_id order by place rows between unbounded preceding and unbounded following
        ) as newest_at,
        lead(latitude_deg) over track as after_lat,
        lead(longitude_deg) over track as after_lon
    from paced
    window track as (partition by router_id order by place)
),

stood as (
    select
        *,
        sum(case when is_driven then 0 else coalesce(leg_s, 0) end) over (
            partition by router_id order by place rows unbounded preceding
        ) as stood_s
    from judged
),

-- Standing long enough in total between two driven legs is a stop.
driven as (
    select
        *,
        coalesce(stood_s - lag(stood_s) over track >= {{ var('stop_s') }}, true) as sets_off,
        before_kmh >= {{ var('standing_kmh') }} and came_kmh < {{ var('standing_kmh') }}
            and {{ is_one_ramp('came_m', 'before_kmh', 'came_s') }} as stood_before,
        speed_kmh >= {{ var('standing_kmh') }} and after_kmh < {{ var('standing_kmh') }}
            and {{ is_one_ramp('after_m', 'speed_kmh', 'after_s') }} as stood_after
    from stood
    where is_driven
    window track as (partition by router_id order by place)
),

-- How long the trip began before its first moving fix, and ended after its last. From or to a
-- standing fix at constant acceleration, the time is twice the distance over the speed, but only if
-- all of that leg can be one acceleration: a longer one is a drive that was not recorded. Without
-- such a fix, the acceleration is that of the nearest leg. Across a gap there is none: the trip
-- begins with its first fix, or ends with its last.
ramped as (
    select
        *,
        sum(case when sets_off then 1 else 0 end) over (
            partition by router_id order by place rows unbounded preceding
        ) as trip_number,
        case
            when before_kmh < {{ var('standing_kmh') }} then -leg_s + {{ ramp_s('leg_m', 'speed_kmh', 'leg_s') }}
            when stood_before then {{ ramp_s('came_m', 'before_kmh', 'came_s') }}
            when coalesce(came_s, {{ var('trip_gap_s') }}) >= {{ var('trip_gap_s') }} then 0
            when speed_kmh > before_kmh
                then least(before_kmh * leg_s / (speed_kmh - before_kmh), leg_s, {{ var('stop_s') }})
            else least(leg_s, {{ var('stop_s') }})
        end as start_ramp_s,
        case
            when speed_kmh < {{ var('standing_kmh') }} then -leg_s + {{ ramp_s('leg_m', 'before_kmh', 'leg_s') }}
            when stood_after then {{ ramp_s('after_m', 'speed_kmh', 'after_s') }}
            when coalesce(after_s, {{ var('trip_gap_s') }}) >= {{ var('trip_gap_s') }} then 0
            when before_kmh > speed_kmh
                then least(speed_kmh * leg_s / (before_kmh - speed_kmh), leg_s, {{ var('stop_s') }})
            else least(leg_s, {{ var('stop_s') }})
        end as end_ramp_s,
        before_kmh < {{ var('standing_kmh') }} or stood_before or coalesce(came_s < {{ var('trip_gap_s') }}, false)
            as is_start_known,
        speed_kmh < {{ var('standing_kmh') }} or stood_after or coalesce(after_s < {{ var('trip_gap_s') }}, false)
            as is_end_known
    from driven
),

-- A trip starts and ends at that standing fix, however long before or after it was taken. Without
-- one, it starts and ends on the straight line beyond the moving fix, at the acceleration distance.
placed as (
    select
        *,
        case
            when came_s is not null and came_kmh >= {{ var('standing_kmh') }} and leg_m >= 1
                then before_kmh * greatest(start_ramp_s, 0) / 7.2 / leg_m
            else 0
        end as start_share,
        case
            when after_s is not null and after_kmh >= {{ var('standing_kmh') }} and leg_m >= 1
                then speed_kmh * greatest(end_ramp_s, 0) / 7.2 / leg_m
            else 0
        end as end_share
    from ramped
),

heard as (
    select
        router_id,
        trip_number,
        carrier,
        row_number() over (partition by router_id, trip_number order by count(*) desc, carrier) as commonness,
        count(*) over (partition by router_id, trip_number) as carriers
    from ramped
    where carrier is not null
    group by router_id, trip_number, carrier
),

summed as (
    select
        router_id,
        min_by(fix_id, place) as trip_id,
        min(fix_date) as trip_date,
        trip_number,

        sum(leg_fixes) as fixes,
        sum(leg_s) as driven_s,
        sum(case when 3.6 * way_m >= {{ var('fast_kmh') }} * leg_s then leg_s else 0 end) as fast_s,
        max(top_kmh) as top_speed_kmh,
        max(path_m) - min(path_m - way_m) as path_m,
        {{ extent_m('before_lat', 'before_lon', 'latitude_deg', 'longitude_deg') }} as extent_m,
        {{ exact_mean('rsrp_dbm') }} as mean_rsrp_dbm,
        min(rsrp_dbm) as min_rsrp_dbm,
        {{ exact_mean('sinr_db') }} as mean_sinr_db,
        {{ exact_mean('signal_pct') }} as mean_signal_pct,

        min_by(case when stood_before then came_lat else before_lat end, place) as start_lat,
        min_by(case when stood_before then came_lon else before_lon end, place) as start_lon,
        min_by(latitude_deg, place) as next_lat,
        min_by(longitude_deg, place) as next_lon,
        min_by(start_share, place) as start_share,
        min_by(before_kmh, place) as start_kmh,
        round(min_by(start_ramp_s, place), 1) as start_ramp_s,
        min(before_at) as first_at,

        max_by(case when stood_after then after_lat else latitude_deg end, place) as end_lat,
        max_by(case when stood_after then after_lon else longitude_deg end, place) as end_lon,
        max_by(before_lat, place) as last_lat,
        max_by(before_lon, place) as last_lon,
        max_by(end_share, place) as end_share,
        max_by(speed_kmh, place) as end_kmh,
        round(max_by(end_ramp_s, place), 1) as end_ramp_s,
        max(fixed_at) as last_at,
        max(newest_at) as newest_at,

        min_by(case when not is_start_known then came_at end, place) as seen_before_at,
        max_by(case when not is_end_known then after_at end, place) as seen_after_at,
        max_by(case when not is_end_known then after_lat end, place) as seen_after_latitude_deg,
        max_by(case when not is_end_known then after_lon end, place) as seen_after_longitude_deg
    from placed
    group by router_id, trip_number
),

ended as (
    select
        s.*,
        h.carrier as main_carrier,
        coalesce(h.carriers, 0) as carriers,
        {{ seconds_between('last_at', 'newest_at') }} < {{ var('stop_s') }} as is_open,
        {{ latitude_beyond('next_lat', 'next_lon', 'start_lat', 'start_lon', 'start_share') }} as start_latitude_deg,
        {{ longitude_beyond('next_lat', 'next_lon', 'start_lat', 'start_lon', 'start_share') }} as start_longitude_deg,
        {{ latitude_beyond('last_lat', 'last_lon', 'end_lat', 'end_lon', 'end_share') }} as end_latitude_deg,
        {{ longitude_beyond('last_lat', 'last_lon', 'end_lat', 'end_lon', 'end_share') }} as end_longitude_deg,
        {{ seconds_after('first_at', '-start_ramp_s') }} as started_at,
        {{ seconds_after('last_at', 'end_ramp_s') }} as ended_at,
        path_m + (
            start_kmh * greatest(start_ramp_s, 0) + end_kmh * greatest(end_ramp_s, 0)
        ) / 3.6 / 2 as way_m
    from summed as s
    left join heard as h
        on s.router_id = h.router_id and s.trip_number = h.trip_number and h.commonness = 1
),

-- Only trips that are kept are looked up.
kept as (
    select *
    from ended
    where extent_m >= {{ var('shortest_trip_m') }} and ended_at > started_at
        and {{ in_found(['router_id', 'trip_date']) }}
),

begun_in as (
    {{ in_places('kept', ['router_id', 'trip_id'], 'start_latitude_deg', 'start_longitude_deg') }}
),

ended_in as (
    {{ in_places('kept', ['router_id', 'trip_id'], 'end_latitude_deg', 'end_longitude_deg') }}
)

select
    k.trip_id,
    k.router_id,

    r.router_name,
    r.account_name,
    r.group_name,
    main_carrier,
    carriers,
    is_open,
    b.place_name as start_place_name,
    case when not k.is_open then e.place_name end as end_place_name,

    cast(fixes as bigint) as fixes,
    start_latitude_deg,
    start_longitude_deg,
    end_latitude_deg,
    end_longitude_deg,
    round({{ seconds_between('started_at', 'ended_at') }}, 0) as duration_s,
    round(greatest({{ seconds_between('first_at', 'last_at') }} - driven_s, 0), 0) as idle_s,
    round(least(fast_s, {{ seconds_between('started_at', 'ended_at') }}), 0) as fast_s,
    round(way_m / 1000, 2) as distance_km,
    round({{ distance_m('start_latitude_deg', 'start_longitude_deg', 'end_latitude_deg', 'end_longitude_deg') }} / 1000, 2)
        as straight_km,
    round(top_speed_kmh, 1) as top_speed_kmh,
    round(3.6 * way_m / {{ seconds_between('started_at', 'ended_at') }}, 1) as mean_speed_kmh,
    mean_rsrp_dbm,
    min_rsrp_dbm,
    mean_sinr_db,
    mean_signal_pct,
    seen_after_latitude_deg,
    seen_after_longitude_deg,

    trip_date,
    {{ local_columns('started_at', 'z.time_zone', 'b') }},
    started_at,
    ended_at,
    seen_before_at,
    seen_after_at,
    {{ built_at() }} as built_at

from kept as k
left join begun_in as b
    on k.router_id = b.router_id and k.trip_id = b.trip_id and b.narrowness = 1
left join ended_in as e
    on k.router_id = e.router_id and k.trip_id = e.trip_id and e.narrowness = 1
left join {{ ref('int_router_zones') }} as z on k.router_id = z.router_id
left join {{ ref('int_routers') }} as r on k.router_id = r.router_id
