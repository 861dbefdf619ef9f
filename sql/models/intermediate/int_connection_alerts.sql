-- Grain: one row per polled alert that a router went online or offline.
-- Kind: incremental. Polled alerts never change, so new ones are added. An alert of a file that was
-- rewritten, as after an erasure, looks new and replaces itself.

{{ config(
    materialized='incremental',
    incremental_strategy='delete+insert',
    unique_key='alert_id',
    post_hook="{{ remember_built() }}"
) }}

{{ connection_alerts(polled_alerts()) }}
