-- Grain: one row per router or access point and span of time in one account and group, under one name.
-- Kind: view.

{{ version_spans(ref('stg_routers_history'), 'router_id', ['account_id', 'group_id', 'router_name']) }}
