-- name: pushes
select count(*), min(alerted_at), max(received_at) from raw.{pushed} where account_profile = ?

-- name: last_poll
-- When the list was last read to its end, and up to which time of the service.
select finished_at, read_until from meta.reads
where account_profile = ? and endpoint = '{polled}' and shard = ?

-- name: confirmed
-- How many recent pushes polls have read, and how many they should have read.
select count(c.push_id), count(*) filter (c.push_id is null)
from raw.{pushed} p
left join meta.confirmations c using (push_id)
where p.account_profile = ? and p.alerted_at >= ? and p.alerted_at < ? and p.received_at < ?

-- name: unpushed
select count(*) from raw.{polled} a
where account_profile = ? and created_at >= ? and created_at < ?
    and not exists (select 1 from meta.confirmations c where c.alert_id = a.{key})

-- name: failing
select (
    select count(*) from raw.{polled}
    where account_profile = $who and created_at >= $recent and type in (select unnest($types))
) + (
    select count(*) from raw.{pushed}
    where account_profile = $who and alerted_at >= $recent and type in (select unnest($types))
)

-- name: destinations
select * from raw.{destinations} where valid_to is null and account_profile = ?
