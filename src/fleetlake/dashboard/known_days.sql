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
