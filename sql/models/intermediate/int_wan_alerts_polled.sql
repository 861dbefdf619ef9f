-- Grain: one row per polled alert that says in which state a WAN interface is, or that a router failed over.
-- Kind: incremental. Polled alerts never change, so new ones are added.

{{ config(
    materialized='incremental', incremental_strategy='append', post_hook="{{ remember_built() }}"
) }}

{{ wan_alerts(polled_alerts()) }}
