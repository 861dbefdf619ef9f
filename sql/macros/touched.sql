{# The units that an incremental model has to recompute, as a query. #}

{# New fixes, and those whose carrier has another name now. #}
{% macro touched_fixes() -%}
    select router_id, created_at_timeuuid as fix_id, created_at as fixed_at
    from {{ source('raw', 'historical_locations') }}
    where {{ is_new_row() }}

    union

    select router_id, fix_id, fixed_at
    from {{ this }}
    where carrier_code in (select carrier_code from {{ ref('int_carriers') }} where {{ is_recomputed() }})
{%- endmacro %}

{# Pre-hook: store when the first of them was taken. #}
{% macro recall_first_fix() -%}
    {% if is_incremental() and target.type == 'duckdb' %}set variable first_touched_at = (select min(fixed_at) from ({{ touched_fixes() }})){% endif %}
{%- endmacro %}

{# When the first of them was taken: a constant also on Spark, which skips files by one. #}
{% macro first_touched_at() -%}
    {% if target.type != 'spark' %}{{ return("getvariable('first_touched_at')") }}{% endif %}
    {% set first = run_query('select cast(min(fixed_at) as string) from (' ~ touched_fixes() ~ ')').rows[0][0] if execute else none %}
    {{ return("cast('" ~ first ~ "' as timestamp)" if first else 'cast(null as timestamp)') }}
{%- endmacro %}

{% macro touched_point_days() -%}
    select router_id, fix_date
    from {{ ref('location_track_points') }}
    where {{ is_recomputed() }}
{%- endmacro %}

{# A trip may have started the day before, or continue into the day after. The trips before and after
   say when and where their device was seen next or last, however long the gap between them. Trips of
   a router whose time zone changed have other local times; if a name changed, all trips get it. #}
{% macro touched_trip_days() -%}
    with days as (
        select distinct router_id, fix_date
        from {{ ref('location_track_points') }}
        where {{ is_recomputed() }}
    ),

    trip_days as (
        select distinct router_id, trip_date from {{ this }}
    )

    select d.router_id, d.fix_date + o.days as trip_date
    from days as d
    cross join (values (-1), (0), (1)) as o (days)
    union
    {{ nearest_day('days', 'fix_date', '>', 'trip_days', 'trip_date') }}
    union
    {{ nearest_day('days', 'fix_date', '<', 'trip_days', 'trip_date') }}
    union
    select t.router_id, t.trip_date
    from {{ this }} as t
    left join {{ ref('int_router_zones') }} as z on t.router_id = z.router_id
    left join {{ ref('int_routers') }} as r on t.router_id = r.router_id
    where t.local_time_zone is distinct from z.time_zone
        or t.router_name is distinct from r.router_name
        or t.account_name is distinct from r.account_name
        or t.group_name is distinct from r.group_name
{%- endmacro %}

{% macro touched_usage_days() -%}
    select net_device_id, cast(created_at as date) as usage_date
    from {{ source('raw', 'net_device_usage_samples') }}
    where {{ is_new_row() }}
    {{ or_incomplete(['net_device_id', 'usage_date']) }}
{%- endmacro %}

{% macro touched_signal_days() -%}
    select net_device_id, cast(created_at as date) as signal_date
    from {{ source('raw', 'net_device_signal_samples') }}
    where {{ is_new_row() }}
    {{ or_incomplete(['net_device_id', 'signal_date']) }}
{%- endmacro %}

{# New versions and those that ended, and the days that have come since for all others. #}
{% macro touched_health_days() -%}
    select net_device_id, {{ explode_days('cast(valid_from as date)', 'cast(listed_until as date)') }} as health_date
    from (
        select h.*, coalesce(h.valid_to, greatest(h.valid_from, a.known_until)) as listed_until
        from {{ source('raw', 'net_device_health') }} as h
        cross join {{ ref('int_as_of') }} as a
        where h.{{ is_new_row() }}
    ) as changed

    union

    select net_device_id, {{ explode_days('last_date + 1', 'known_date') }} as health_date
    from (
        select h.net_device_id, t.last_date, cast(a.known_until as date) as known_date
        from {{ source('raw', 'net_device_health') }} as h
        cross join {{ ref('int_as_of') }} as a
        cross join (select max(health_date) as last_date from {{ this }}) as t
        where h.valid_to is null
    ) as lasting
{%- endmacro %}

{% macro touched_routers() -%}
    select distinct id
    from {{ source('raw', 'routers') }}
    where {{ is_new_row() }}
{%- endmacro %}

{# An alert that appears or disappears changes its own day and the day of the next alert, which may
   now repeat it, or no longer does. A push disappears when a poll confirms it, and appears again if
   another push proves to be the confirmed one. #}
{% macro touched_alert_days() -%}
    select distinct
        alert_type,
        router_id,
        {{ explode_days(
            'cast(detected_at as date)', 'cast(' ~ seconds_after('detected_at', var('alert_repeat_s')) ~ ' as date)'
        ) }} as alert_date
    from (
        select alert_type, router_id, detected_at
        from ({{ polled_alerts() }}) as polled

        union all

        select
            coalesce({{ neutral_word('type') }}, 'unknown') as alert_type,
            router_id,
            {{ detected('detected_at', 'alerted_at') }} as detected_at
        from {{ source('raw', 'pushed_alerts') }}
        where {{ is_new_row() }}
            or push_id in (select push_id from {{ source('meta', 'confirmations') }} where {{ is_new_row() }})
            or ({{ "true" if target.type == 'spark' else "getvariable('has_lost_confirmations')" }}
                and push_id not in (select push_id from {{ source('meta', 'confirmations') }}))
    ) as changed

    union

    select alert_type, router_id, alert_date
    from {{ this }}
    where router_id in (select router_id from {{ ref('int_router_accounts') }} where {{ is_recomputed() }})
{%- endmacro %}
