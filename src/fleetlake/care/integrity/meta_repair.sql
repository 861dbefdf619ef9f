-- name: overlaps
select endpoint, count(*) from (
    select
        endpoint, start_at, end_at,
        lag(end_at) over (
            partition by account_profile, endpoint, partition order by start_at
        ) as before
    from meta.intervals
)
where start_at >= end_at or start_at < before
group by endpoint

-- name: doubled
select endpoint, count(*) - count(distinct account_profile)
from meta.watermarks
group by endpoint
having count(*) > count(distinct account_profile)

-- name: unmarked
select endpoint, count(distinct account_profile)
from meta.intervals i
where not exists (
    select 1 from meta.watermarks w
    where w.account_profile = i.account_profile and w.endpoint = i.endpoint
)
group by endpoint

-- name: rows_of_loads
select endpoint, sum(rows)::bigint
from (
    select endpoint, rows_added as rows from meta.loads
    union all
    select endpoint, -rows from meta.events where kind = ?
)
where endpoint is not null
group by endpoint

-- name: sweep_next
update meta.reads set
    final_until = null, read_until = null, swept_at = swept_at - interval {days} days
where {condition}

-- name: lower_watermark
update meta.watermarks set
    watermark_at = case when $newest::timestamptz is not null then
        least(watermark_at, $newest::timestamptz)
    end
where endpoint = $endpoint

-- name: restore_watermarks
insert into meta.watermarks (account_profile, endpoint, watermark_at, updated_at)
select account_profile, {name}, max({newest}), max(_loaded_at)
from raw.{table} r
where not exists (
    select 1 from meta.watermarks w
    where w.account_profile = r.account_profile and w.endpoint = {name}
)
group by account_profile

-- name: balance_load
insert into meta.loads (
    load_id, run_id, account_profile, endpoint, records, rows_added, rows_changed, quarantined,
    committed_at
)
values (?, 'repair', '', ?, 0, ?, 0, 0, now())
