-- Grain: one row per activity.
-- Kind: view.

select
    account_profile,
    action_id as activity_id,
    actor_id,
    object_id,

    try_cast(action_type as bigint) as action_type_number,
    action_type_name as action_type,
    try_cast(actor_type as bigint) as actor_type_number,
    {{ neutral_word('actor_type_name') }} as actor_type,
    nullif(actor_email, '') as actor_email,
    nullif(actor_mac, '') as actor_mac,
    nullif(actor_name, '') as actor_name,
    try_cast(object_type as bigint) as object_type_number,
    {{ neutral_word('object_type_name') }} as object_type,
    object_role,
    object_user,
    action_before as entity_before,
    action_after as entity_after,
    action_diff as entity_diff,

    action_timestamp as acted_at,
    _loaded_at as loaded_at

from {{ source('raw', 'activity_logs') }}
