-- Grain: one row per network interface and UTC month with a usage sample.
-- Kind: table.

with months as (
    select
        net_device_id,
        cast(date_trunc('month', usage_date) as date) as month_date,
        {{ whole_sum('in_bytes') }} as in_bytes,
        {{ whole_sum('out_bytes') }} as out_bytes,
        {{ whole_sum('total_bytes') }} as total_bytes,
        sum(sampled_s) as sampled_s,
        {{ whole_sum('connected_s') }} as connected_s,
        {{ seconds_after('min(first_sampled_at)', '-1e0 * coalesce(sum(sampled_s), 0) / sum(samples)') }} as sampled_from,
        min(first_sampled_at) as first_sampled_at,
        max(last_sampled_at) as last_sampled_at
    from {{ ref('data_usage_daily') }}
    group by net_device_id, cast(date_trunc('month', usage_date) as date)
),

-- Samples may begin later than the lake's other data. The first one within an hour of a month's
-- start is its first one.
whole as (
    select min(m.sampled_from) as sampled_from
    from months as m
    cross join {{ ref('int_as_of') }} as a
    where m.first_sampled_at >= a.known_from
),

-- The projection uses the rate since the first sample's period began; that period ends in the
-- month but may have begun before it.
paced as (
    select
        m.*,
        {{ is_whole('a', 'm.month_date', 'month') }} 
            and coalesce(w.sampled_from < {{ day_start('m.month_date') }} + interval 1 hour, false) as is_complete,
        {{ day_start('m.month_date') }} + interval 1 month as month_ends_at,
        greatest({{ seconds_between('m.sampled_from',
            'least(a.known_until, ' ~ day_start('m.month_date') ~ ' + interval 1 month)') }}, 1) as pace_s
    from months as m
    cross join {{ ref('int_as_of') }} as a
    cross join whole as w
),

-- An interface that left the service, as of a replaced router, moves no more data.
gone as (
    select net_device_id
    from {{ ref('int_interfaces') }}
    where until_at is null and seen_until is not null
),

projected as (
    select
        p.*,
        case
            when g.net_device_id is not null then p.total_bytes
            else p.total_bytes / p.pace_s * {{ seconds_between('p.sampled_from', 'p.month_ends_at') }}
        end as projected_bytes
    from paced as p
    left join gone as g on p.net_device_id = g.net_device_id
)

select
    p.net_device_id,
    i.router_id,
    r.account_id,
    r.group_id,
    p.month_date,

    r.router_name,
    r.account_name,
    r.group_name,
    i.interface,
    i.carrier,

    p.in_bytes,
    p.out_bytes,
    p.total_bytes,
    {# A floating-point number of this size may be rounded below the total. #}
    case when {{ whole_number('p.projected_bytes') }} < p.total_bytes then p.total_bytes
        else {{ whole_number('p.projected_bytes') }} end as projected_bytes,
    {{ whole_number('coalesce(c.monthly_cap_gb, other.monthly_cap_gb) * 1e9') }} as cap_bytes,
    round(1e2 * p.total_bytes / nullif(coalesce(c.monthly_cap_gb, other.monthly_cap_gb) * 1e9, 0), 2) as cap_used_pct,
    round(100 * p.projected_bytes / nullif(coalesce(c.monthly_cap_gb, other.monthly_cap_gb) * 1e9, 0), 2) as cap_projected_pct,
    p.projected_bytes > coalesce(c.monthly_cap_gb, other.monthly_cap_gb) * 1e9 as is_over_cap_projected,

    {{ whole_number('p.sampled_s') }} as sampled_s,
    p.connected_s,
    round(1e2 * p.connected_s / nullif(p.sampled_s, 0), 2) as connected_pct,
    p.is_complete,
    p.first_sampled_at,
    p.last_sampled_at

from projected as p
left join {{ ref('int_interfaces') }} as i
    on p.net_device_id = i.net_device_id
    and {{ holds_at('i', 'p.last_sampled_at') }}
left join {{ ref('int_routers') }} as r on i.router_id = r.router_id
left join {{ ref('carrier_plans') }} as c on i.carrier = c.carrier
left join {{ ref('carrier_plans') }} as other on other.carrier = '*' and i.interface_type <> 'ethernet'
