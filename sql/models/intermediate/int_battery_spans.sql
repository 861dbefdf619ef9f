-- Grain: one row per battery and span of time in one router.
-- Kind: view.

{{ version_spans(ref('stg_batteries_history'), 'battery_id', ['router_id']) }}
