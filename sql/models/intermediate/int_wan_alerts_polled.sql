-- Grain: one row per polled alert that says in which state a WAN interface is, or that a router failed over.
-- Kind: incremental. Polled alerts never change, so new ones are added. An alert of a file that was
-- rewritten, as after an erasure, looks new and replaces itself.

{{ config(
    materialized='incremental',
    incremental_strategy='delete+insert',
    unique_key='alert_id',
    post_hook="{{ remember_built() }}"
) }}

{{ wan_alerts(polled_alerts()) }}
