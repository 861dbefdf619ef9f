{# Numbers as text for sentences; the same text on every platform. #}

{# Whether a text is a network code: the three digits of the country and two or three of the network. #}
{% macro is_carrier_code(text) -%}
    (length({{ text }}) in (5, 6) and translate({{ text }}, '0123456789', '') = '')
{%- endmacro %}

{# A length of time in words, such as `3 hours`; 47 hours are hours, 48 are 2 days. #}
{% macro duration_words(seconds) -%}
    case
        when ({{ seconds }}) < 60 then 'less than a minute'
        when ({{ seconds }}) < 120 then '1 minute'
        when ({{ seconds }}) < 7200 then concat({{ whole('floor((' ~ seconds ~ ') / 60)') }}, ' minutes')
        when ({{ seconds }}) < 172800 then concat({{ whole('floor((' ~ seconds ~ ') / 3600)') }}, ' hours')
        else concat({{ whole('floor((' ~ seconds ~ ') / 86400)') }}, ' days')
    end
{%- endmacro %}

{# A number rounded to an integer. #}
{% macro whole(value) -%}
    cast({{ whole_number(value) }} as {{ dbt.type_string() }})
{%- endmacro %}

{# Bytes as gigabytes with one decimal. #}
{% macro gigabytes(bytes) -%}
    cast(try_cast(round({{ bytes }} / 1e9, 1) as decimal(18, 1)) as {{ dbt.type_string() }})
{%- endmacro %}
