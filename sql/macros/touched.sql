{# The units that an incremental model has to recompute, as a query. #}

{% macro touched_fixes() -%}
    select cast(created_at as date) as fix_date, router_id, created_at_timeuuid as fix_id
    from {{ source('raw', 'historical_locations') }}
    where {{ is_new_row() }}
{%- endmacro %}

{% macro touched_point_days() -%}
    select router_id, fix_date
    from {{ ref('location_track_points') }}
    where {{ is_recomputed() }}
{%- endmacro %}

{# A trip may have started the day before, or continue into the day after. #}
{% macro touched_trip_days() -%}
    select p.router_id, p.fix_date + o.days as trip_date
    from {{ ref('location_track_points') }} as p
    cross join (values (-1), (0), (1)) as o (days)
    where {{ is_recomputed() }}
{%- endmacro %}

{% macro touched_usage_days() -%}
    select net_device_id, cast(created_at as date) as usage_date
    from {{ source('raw', 'net_device_usage_samples') }}
    where {{ is_new_row() }}
{%- endmacro %}

{% macro touched_signal_days() -%}
    select net_device_id, cast(created_at as date) as signal_date
    from {{ source('raw', 'net_device_signal_samples') }}
    where {{ is_new_row() }}
{%- endmacro %}
