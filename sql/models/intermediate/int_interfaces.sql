-- Grain: one row per network interface and span of time in which its columns stay the same.
-- Kind: table.

-- A modem may move to another router, change its name or get another SIM card, so events join the
-- version of their own time. An interface without a connection may report no carrier; it keeps the
-- last one reported for the same SIM card.
{{ config(materialized='table') }}

with ordered as (
    select
        *,
        coalesce(uid, net_device_name) as interface,
        net_device_type as interface_type,
        count(carrier) over (
            partition by net_device_id, iccid order by valid_from, valid_to nulls last, account_profile
            rows between unbounded preceding and current row
        ) as carriers_told
    from {{ ref('stg_net_devices_history') }}
),

named as (
    select
        net_device_id,
        router_id,
        interface,
        interface_type,
        net_device_mode,
        max(carrier) over (
            partition by net_device_id, iccid, greatest(carriers_told, 1)
        ) as carrier,
        account_profile,
        valid_from,
        valid_to
    from ordered
)

{{ version_spans('named', 'net_device_id', ['router_id', 'interface', 'interface_type', 'net_device_mode', 'carrier']) }}
