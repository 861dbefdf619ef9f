-- name: asked
asked as (
    select
        until_date, days,
        until_date - days as since_date,
        until_date - 2 * days as before_date
    from (
        select
            until_at::date as until_date,
            coalesce(round(epoch(until_at - $from::timestamptz) / 86400), 7) as asked_days,
            greatest(1, asked_days)::int as days
        from (
            select coalesce($to::timestamptz, max(newest_event_at)) as until_at
            from pipeline_freshness
        )
    )
),
available as (
    select available_date as day, max(known_s) / 86400 as known
    from device_availability_daily
    group by available_date
)

-- name: known
-- A day is known as far as the metric's streams are proven; the first day of the lake, and days that
-- the snapshot does not describe, as far as the state of devices is known.
select
    round(coalesce(sum(known) filter (day >= since_date), 0), 2) as known_days,
    round(coalesce(sum(known) filter (day < since_date), 0), 2) as known_days_before
from asked
join (
    select day, case when day > first_day then coalesce(proven, known) else known end as known
    from available
    full join (
        select complete_date as day, min(proven_pct) / 100 as proven
        from snapshot_completeness
        where list_contains({streams}, endpoint)
        group by complete_date
    ) using (day)
    cross join (select min(day) as first_day from available)
) on day >= before_date and day < until_date
