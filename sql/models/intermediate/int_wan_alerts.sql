-- Grain: one row per alert that a WAN interface was lost or came up.
-- Kind: view.

select * from {{ ref('int_wan_alerts_polled') }}
union all
{{ wan_alerts(unconfirmed_pushes()) }}
