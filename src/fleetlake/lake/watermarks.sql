-- name: advance
-- The newest of each stream's marks; none moves back.
update meta.watermarks w set
    updated_at = greatest(w.updated_at, now()),
    watermark_at = greatest(w.watermark_at, m.watermark_at),
    load_id = coalesce(m.load_id, w.load_id),
    list_digest = coalesce(m.list_digest, w.list_digest),
    list_snapshot = coalesce(m.list_snapshot, w.list_snapshot)
from ({newest}) m
where w.account_profile = m.account_profile and w.endpoint = m.endpoint

-- name: add
insert into meta.watermarks by name
select *, now() as updated_at
from ({newest}) m
where not exists (
    select 1 from meta.watermarks w
    where w.account_profile = m.account_profile and w.endpoint = m.endpoint
)

-- name: newest
select
    account_profile, endpoint, max(watermark_at) as watermark_at, max(load_id) as load_id,
    arg_max(list_digest, list_snapshot) as list_digest, max(list_snapshot) as list_snapshot
from marks
group by all

-- name: begin_reads
insert into meta.reads by name
select
    $profile as account_profile, endpoint, $shard as shard,
    coalesce((select min(swept_at) {of_stream}), $now) as swept_at,
    coalesce(
        $since, (select min(coalesce(wanted_from, $beginning)) {of_stream}), $beginning
    ) as wanted_from
from (select unnest($new) as endpoint) n

-- name: of_stream
from meta.reads r where r.account_profile = $profile and r.endpoint = n.endpoint

-- name: forget_reads
delete from meta.reads r using new_reads n
where r.account_profile = n.account_profile and r.endpoint = n.endpoint and r.shard = n.shard
