-- Grain: one row per alert that says in which state a WAN interface is, or that a router failed over.
-- Kind: view.

select * from {{ ref('int_wan_alerts_polled') }}
union all
{{ wan_alerts(unconfirmed_pushes()) }}
