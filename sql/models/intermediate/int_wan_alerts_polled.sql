-- Grain: one row per polled alert that a WAN interface was lost or came up.
-- Kind: incremental. Polled alerts never change, so new ones are added.

{{ config(
    materialized='incremental', incremental_strategy='append', post_hook="{{ remember_built() }}"
) }}

{{ wan_alerts(polled_alerts()) }}
