-- Grain: one row per alert: polled or, until a poll reads it, pushed.
-- Kind: view.

{{ polled_alerts() }}

union all

select
    account_profile,
    alert_id,
    account_id,
    router_id,

    alert_type,
    description,
    info,

    detected_at,
    created_at,
    loaded_at

from ({{ unconfirmed_pushes() }}) as pushed
