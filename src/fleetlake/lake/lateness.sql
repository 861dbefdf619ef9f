-- name: note
-- How late the rows were that a load has just inserted.
insert into meta.lateness by name
select
    $profile as account_profile, $endpoint as endpoint, $load_id as load_id,
    case
        when {event} >= $read_until then 0
        else ceil(
            least(
                epoch($seen_at - {event}),
                2 * (epoch($read_until - greatest({event}, $final_until)) + {settle})
            ) / {resolution}
        ) * {resolution}
    end::bigint as lateness_seconds,
    count(*) as records, $seen_at as measured_at
from raw.{table} r
join starts s on s.id = {partition}
where r._load_id = $load_id and {event} >= $earliest and {event} >= s.start_at
group by all

-- name: measured
-- By endpoint, the lateness that only a given share of the records exceeds.
with measured as (
    select endpoint, lateness_seconds, sum(records) as records
    from meta.lateness
    where account_profile = ? and measured_at >= ?
    group by all
),
shares as (
    select
        endpoint, lateness_seconds,
        sum(records) over (partition by endpoint order by lateness_seconds)
        / sum(records) over (partition by endpoint) as share
    from measured
)
select endpoint, min(lateness_seconds) from shares where share >= ? group by endpoint
