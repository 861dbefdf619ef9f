-- Grain: one row per group and span of time under one name.
-- Kind: view.

{{ version_spans(ref('stg_groups_history'), 'group_id', ['group_name']) }}
