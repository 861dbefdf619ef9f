{# Records that change: what held at the time of an event, and not what holds today.

   A poll finds a new version of a record some time after it changed, so the first version is
   taken to have held before it was first seen, and the last one until now. #}

{# Whether a span holds an instant; a span without a start or an end has none on that side. #}
{% macro holds_at(span, instant) -%}
    ({{ span }}.from_at is null or {{ instant }} >= {{ span }}.from_at)
    and ({{ span }}.until_at is null or {{ instant }} < {{ span }}.until_at)
{%- endmacro %}


{# A row per record and span of time in which some of its columns stay the same. The spans of a
   record follow each other without a gap: `from_at` of the first and `until_at` of the last are
   null. `seen_from` and `seen_until` say when polls saw it so; null while they still do. #}
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


{# The value of a group's first or last row that has one, by some columns: ties are broken by the
   later of them, so that the same rows give the same value however they came. #}
{% macro first_by(value, order_by) -%}
    min_by({{ value }}, {{ ordered_struct(order_by) }}) filter (where {{ value }} is not null)
{%- endmacro %}

{% macro last_by(value, order_by) -%}
    max_by({{ value }}, {{ ordered_struct(order_by) }}) filter (where {{ value }} is not null)
{%- endmacro %}
