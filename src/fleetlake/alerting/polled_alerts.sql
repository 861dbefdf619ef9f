select
    rowid as row_number, coalesce(c.push_id, lower({key})) as push_id, {key} as alert_id,
    'poll' as arrived_by, account_profile, type, friendly_info, account_id, router_id, _loaded_at,
    coalesce(detected_at, created_at) as detected_at
from raw.{polled}
left join (
    select alert_id as confirmed, push_id from meta.confirmations
) as c on c.confirmed = {key}
where rowid > $polled and created_at >= $since
    and (len($types) = 0 or list_contains($types, type))
    -- The push was announced, or is older than the first look.
    and not exists (
        select 1 from raw.{pushed} as p where p.push_id = c.push_id and p.rowid <= $pushed
    )
