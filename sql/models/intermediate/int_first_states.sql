-- Grain: one row per router that went online or offline, with when it first did either.
-- Kind: view.

select
    router_id,
    min(case when is_offline then changed_at end) as first_offline_at,
    min(case when not is_offline then changed_at end) as first_online_at
from {{ ref('int_connection_events') }}
group by router_id
