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
