select
    uuid as failover_id,
    started_at,
    ended_at,
    date_diff('second', started_at, ended_at) as duration_s
from raw.failovers
