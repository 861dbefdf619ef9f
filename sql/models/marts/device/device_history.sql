-- Grain: one row per device and version of its record.
-- Kind: table.

{% set watched = [
    'router_name', 'account_id', 'group_id', 'actual_firmware_id', 'target_firmware_id',
    'connection_state', 'config_status', 'ipv4_address', 'asset_tag', 'description',
] %}

with versions as (
    select
        *,
        row_number() over track as version_number,
        {% for column in watched %}
        lag(cast({{ column }} as {{ dbt.type_string() }})) over track as before_{{ column }},
        {% endfor %}
        lead(valid_from) over track as next_valid_from
    from {{ ref('stg_routers_history') }}
    window track as (partition by router_id order by valid_from, valid_to nulls last, account_profile)
)

select
    router_id,
    account_id,
    group_id,

    router_name,
    connection_state,
    config_status,
    actual_firmware_id,
    target_firmware_id,
    ipv4_address,
    asset_tag,
    description,
    case when version_number = 1 then 'first seen' else concat_ws('; ',
        {% for column in watched %}
        case when coalesce(before_{{ column }}, '') <> coalesce(cast({{ column }} as {{ dbt.type_string() }}), '')
            then concat('{{ column }}: ', coalesce(before_{{ column }}, 'none'), ' -> ', coalesce(cast({{ column }} as {{ dbt.type_string() }}), 'none'))
        end{{ ',' if not loop.last }}
        {% endfor %}
    ) end as changes,
    valid_to is null as is_current,

    version_number,

    valid_from,
    valid_to

from versions
