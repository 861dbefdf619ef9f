-- Grain: one row per router and unbroken spell away from its preferred WAN.
-- Kind: table.

-- Episodes may follow one another without a break, or overlap when a backup fails too.
{{ config(materialized='table') }}

{{ unbroken_spells(ref('int_episodes'), ['router_id'], 'started_at', 'until_at', 'episode_id') }}
