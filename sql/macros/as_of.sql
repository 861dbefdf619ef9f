{# As-of joins: the version of a record at the time of an event, not the current one.

   A poll finds a version of a record only some time after the change. The first version is
   assumed to be valid before it was first seen, and the last one until now. #}

{# Whether a span contains an instant; a null start or end is open. #}
{% macro holds_at(span, instant) -%}
    ({{ span }}.from_at is null or {{ instant }} >= {{ span }}.from_at)
    and ({{ span }}.until_at is null or {{ instant }} < {{ span }}.until_at)
{%- endmacro %}


{# The present names of accounts, or of groups. Two profiles may list the same one. #}
{% macro present_names(relation, thing) -%}
    (select {{ thing }}_id, max({{ thing }}_name) as {{ thing }}_name from {{ relation }} group by {{ thing }}_id)
{%- endmacro %}


{# The first and last events of a relation, per 31 days in which one of them begins. #}
{% macro evidence(relation, first, last) -%}
    {%- set month_number = 'floor(' ~ seconds_between(day_start("date '1970-01-01'"), first) ~ ' / 2678400)' -%}
    select
        {{ month_number }} as month_number,
        min({{ first }}) as first_at,
        max({{ first }}) as latest_first_at,
        max({{ last }}) as last_at
    from {{ relation }}
    group by {{ month_number }}
{%- endmacro %}

{# Since when there can be evidence of a device: not before its record or the lake's first event. #}
{% macro first_evidence(router, as_of) -%}
    greatest(case when {{ router }}.created_at <= {{ as_of }}.known_until then {{ router }}.created_at end,
        {{ as_of }}.known_from)
{%- endmacro %}


{# Whether the lake has data for a whole day or month: it neither began nor ended within it. #}
{% macro is_whole(as_of, date, unit) -%}
    coalesce({{ as_of }}.known_from <= {{ day_start(date) }}
    and {{ as_of }}.known_until >= {{ day_start(date) }} + interval 1 {{ unit }}, false)
{%- endmacro %}


{# A row per record and span of time in which the given columns stay the same. The spans of a
   record have no gaps: `from_at` of the first and `until_at` of the last are null. `seen_from` and
   `seen_until` are when polls saw these values; `seen_until` is null while they are current. #}
{% macro version_spans(relation, key, columns) -%}
    select
        {{ key }},
        {{ columns | join(', ') }},
        case when span_number > 1 then min(valid_from) end as from_at,
        lead(min(valid_from)) over (partition by {{ key }} order by span_number) as until_at,
        min(valid_from) as seen_from,
        case when count(*) = count(valid_to) then max(valid_to) end as seen_until
    from (
        select
            *,
            sum(case when is_other then 1 else 0 end) over (
                partition by {{ key }}
                order by version_number rows between unbounded preceding and current row
            ) as span_number
        from (
            select
                *,
                row_number() over track as version_number,
                row_number() over track = 1
                {% for column in columns %}
                or {{ column }} is distinct from lag({{ column }}) over track
                {% endfor %} as is_other
            from {{ relation }}
            window track as (
                partition by {{ key }} order by valid_from, valid_to nulls last, account_profile
            )
        ) as versions
    ) as numbered
    group by {{ key }}, span_number, {{ columns | join(', ') }}
{%- endmacro %}


{# The first or last non-null value of a group, in the order of some columns. The last columns
   break ties, so that the same rows give the same value in any order. #}
{% macro first_by(value, order_by) -%}
    min_by({{ value }}, {{ ordered_struct(order_by) }}) filter (where {{ value }} is not null)
{%- endmacro %}

{% macro last_by(value, order_by) -%}
    max_by({{ value }}, {{ ordered_struct(order_by) }}) filter (where {{ value }} is not null)
{%- endmacro %}
