{# What adapters spell differently. Everything else in this project is SQL that they share. #}

{# Seconds from one instant to another, with fractions. #}
{% macro seconds_between(start, end) -%}
    {{ return(adapter.dispatch('seconds_between')(start, end)) }}
{%- endmacro %}

{% macro default__seconds_between(start, end) -%}
    (epoch({{ end }}) - epoch({{ start }}))
{%- endmacro %}

{% macro spark__seconds_between(start, end) -%}
    ((unix_micros({{ end }}) - unix_micros({{ start }})) / 1000000.0D)
{%- endmacro %}


{# The instant a number of seconds (a whole number or a column of them) after another. #}
{% macro seconds_after(instant, seconds) -%}
    {{ return(adapter.dispatch('seconds_after')(instant, seconds)) }}
{%- endmacro %}

{% macro default__seconds_after(instant, seconds) -%}
    ({{ instant }} + to_microseconds(cast(round(({{ seconds }}) * 1000000) as bigint)))
{%- endmacro %}

{% macro spark__seconds_after(instant, seconds) -%}
    timestamp_micros(unix_micros({{ instant }}) + cast(round(({{ seconds }}) * 1000000) as bigint))
{%- endmacro %}


{# A member of a JSON column as text; the path is dotted: 'info.port'. #}
{% macro json_text(column, path) -%}
    {{ return(adapter.dispatch('json_text')(column, path)) }}
{%- endmacro %}

{% macro default__json_text(column, path) -%}
    json_extract_string({{ column }}, '$.{{ path }}')
{%- endmacro %}

{% macro spark__json_text(column, path) -%}
    get_json_object({{ column }}, '$.{{ path }}')
{%- endmacro %}
