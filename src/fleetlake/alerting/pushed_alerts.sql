select
    rowid as row_number, push_id, coalesce(created_at_timeuuid, push_id) as alert_id,
    'push' as arrived_by, account_profile, type, friendly_info, account_id, router_id, _loaded_at,
    coalesce(detected_at, alerted_at) as detected_at
from raw.{pushed}
where rowid > $pushed and alerted_at >= $since
    and (len($types) = 0 or list_contains($types, type))
    -- The polled alert is announced instead.
    and push_id not in (select push_id from meta.confirmations)
