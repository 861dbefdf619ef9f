{# Local time. A router's record names its time zone; without a known one, local time is UTC. #}

{# The time zones that the engine knows, as a query: a zone of another name is an error there. #}
{% macro known_zones() -%}
    {{ return(adapter.dispatch('known_zones')()) }}
{%- endmacro %}

{% macro default__known_zones() -%}
    select name as zone_name from pg_timezone_names()
{%- endmacro %}

{% macro spark__known_zones() -%}
    select explode(split(translate(reflect('java.time.ZoneId', 'getAvailableZoneIds'), '[]', ''), ', ')) as zone_name
{%- endmacro %}


{# The local date and time of an instant, without a zone. #}
{% macro local_time(instant, zone) -%}
    {{ return(adapter.dispatch('local_time')(instant, zone)) }}
{%- endmacro %}

{% macro default__local_time(instant, zone) -%}
    timezone(coalesce({{ zone }}, 'UTC'), {{ instant }})
{%- endmacro %}

{% macro spark__local_time(instant, zone) -%}
    from_utc_timestamp({{ instant }}, coalesce({{ zone }}, 'UTC'))
{%- endmacro %}


{# The instant at which a local day begins, or an hour of it. #}
{% macro local_day_start(date, zone, hour=0) -%}
    {{ return(adapter.dispatch('local_day_start')(date, zone, hour)) }}
{%- endmacro %}

{% macro default__local_day_start(date, zone, hour) -%}
    timezone({{ zone }}, cast({{ date }} as timestamp) + to_hours({{ hour }}))
{%- endmacro %}

{% macro spark__local_day_start(date, zone, hour) -%}
    to_utc_timestamp(cast({{ date }} as timestamp) + make_interval(0, 0, 0, 0, cast({{ hour }} as int)), {{ zone }})
{%- endmacro %}


{# The working days and hours of a row of `hours`, which may be null; those of all places without. #}
{% macro working_days(hours) -%}
    coalesce({{ hours }}.working_days, '{{ var('working_days') }}')
{%- endmacro %}

{% macro working_hour(hours, which) -%}
    coalesce({{ hours }}.working_{{ which }}_hour, {{ var('working_' ~ which ~ '_hour') }})
{%- endmacro %}

{% macro is_working_day(days, local) -%}
    {{ days }} like concat('%', {{ iso_weekday(local) }}, '%')
{%- endmacro %}


{# The columns that say when something began by local time. #}
{% macro local_columns(instant, zone, hours) -%}
    {%- set local = local_time(instant, zone) -%}
    {{ zone }} as local_time_zone,
    cast({{ local }} as date) as local_date,
    cast(extract(hour from {{ local }}) as bigint) as local_hour,
    {{ is_working_day(working_days(hours), local) }}
        and extract(hour from {{ local }}) >= {{ working_hour(hours, 'from') }}
        and extract(hour from {{ local }}) < {{ working_hour(hours, 'until') }} as is_working_hours
{%- endmacro %}


{# The day of the week: 1 is Monday, 7 is Sunday. #}
{% macro iso_weekday(local) -%}
    {{ return(adapter.dispatch('iso_weekday')(local)) }}
{%- endmacro %}

{% macro default__iso_weekday(local) -%}
    isodow({{ local }})
{%- endmacro %}

{% macro spark__iso_weekday(local) -%}
    (weekday({{ local }}) + 1)
{%- endmacro %}
