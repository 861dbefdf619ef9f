-- Grain: one row per polled alert that a router went online or offline.
-- Kind: incremental. Polled alerts never change, so new ones are added.

{{ config(
    materialized='incremental', incremental_strategy='append', post_hook="{{ remember_built() }}"
) }}

{{ connection_alerts(polled_alerts()) }}
