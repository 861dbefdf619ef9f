-- Grain: one row per alert rule, as it is now.
-- Kind: view.

select
    account_profile,
    alert_config_id as alert_rule_id,
    account_id,

    filter_criteria,
    associated_accounts,
    associated_groups,
    http_destinations,
    email_destinations,
    schedule,
    settings,

    last_summary_ts as last_summary_at,
    updated_at,
    valid_from,
    _loaded_at as loaded_at

from {{ source('raw', 'alert_rules') }}
where valid_to is null
