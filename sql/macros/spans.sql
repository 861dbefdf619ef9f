{# How long two half-open spans of time overlap, in seconds; 0 when they do not touch. #}
{% macro overlap_s(start, end, other_start, other_end) -%}
    greatest({{ seconds_between(
        'greatest(' ~ start ~ ', ' ~ other_start ~ ')', 'least(' ~ end ~ ', ' ~ other_end ~ ')'
    ) }}, 0)
{%- endmacro %}


{# The share (0 to 1) of the time between two readings in which a value was at or below a level,
   by linear interpolation. For "at or above", negate all three arguments. #}
{% macro share_at_or_below(before, after, level) -%}
    case
        when {{ before }} <= ({{ level }}) and {{ after }} <= ({{ level }}) then 1.0
        when {{ before }} > ({{ level }}) and {{ after }} > ({{ level }}) then 0.0
        when {{ after }} <= ({{ level }}) then (1e0 * ({{ level }}) - ({{ after }})) / (1e0 * ({{ before }}) - ({{ after }}))
        else (1e0 * ({{ level }}) - ({{ before }})) / (1e0 * ({{ after }}) - ({{ before }}))
    end
{%- endmacro %}


{# A value at an instant between two readings, by linear interpolation. #}
{% macro value_at(before, after, start, end, instant) -%}
    case
        when {{ instant }} = {{ start }} then {{ before }}
        when {{ instant }} = {{ end }} then {{ after }}
        else {{ before }} + (1e0 * {{ after }} - {{ before }})
            * {{ seconds_between(start, instant) }} / {{ seconds_between(start, end) }}
    end
{%- endmacro %}


{# Half a step of a gauge that shows whole numbers. Such a gauge first shows a level when the line
   through its readings is half a step from it, whichever way it rounds. #}
{% macro half_step(before, after) -%}
    case when ({{ before }}) % 1 = 0 and ({{ after }}) % 1 = 0 then 0.5e0 else 0e0 end
{%- endmacro %}


{# How far a value is above a level in the mean over the time between two readings, by linear
   interpolation; null if one of them is unknown. #}
{% macro mean_above(before, after, level) -%}
    (greatest({{ before }} - {{ level }}, 0) + greatest({{ after }} - {{ level }}, 0)) / 2
    * (1 - {{ share_at_or_below(before, after, level) }})
{%- endmacro %}


{# Sums and means of measurements, with exact decimals. Sums of floating-point numbers depend on
   their order, but the same rows must give the same marts in any order. A value that no decimal
   holds, such as 1e300, is not a measurement and is left out. #}
{% macro exact_sum(value, digits=3) -%}
    cast(sum(try_cast({{ value }} as decimal(28, {{ digits }}))) as double)
{%- endmacro %}

{% macro exact_mean(value, digits=1) -%}
    {{ mean_of(exact_total(value), exact_count(value), digits) }}
{%- endmacro %}

{% macro exact_total(value) -%}
    sum(try_cast({{ value }} as decimal(28, 7)))
{%- endmacro %}

{% macro exact_count(value) -%}
    count(try_cast({{ value }} as decimal(28, 7)))
{%- endmacro %}

{# Integers in columns of 64 bits: a sum, and a rounded number; null if it does not fit. #}
{% macro whole_sum(value) -%}
    try_cast(sum(cast({{ value }} as decimal(38, 0))) as bigint)
{%- endmacro %}

{% macro whole_number(value) -%}
    try_cast(round({{ value }}) as bigint)
{%- endmacro %}

{# The mean from a sum and a count; null if the count is 0. #}
{% macro mean_of(total, count, digits=1) -%}
    floor(cast({{ total }} as double) / nullif({{ count }}, 0) * 1e{{ digits }} + 0.5e0) / 1e{{ digits }}
{%- endmacro %}


{# The days that spans of time touch: a row per span and UTC day, clipped to the day. It lets two
   sets of spans join on equal days instead of every pair. A zero-length span has one day. #}
{% macro by_day(relation, columns, start, end) -%}
    select
        {{ columns | join(', ') }},
        day_date,
        greatest({{ start }}, {{ day_start('day_date') }}) as from_at,
        least({{ end }}, {{ day_start('day_date') }} + interval 1 day) as until_at
    from (
        select
            {{ columns | join(', ') }},
            {{ start }},
            {{ end }},
            {{ explode_days('cast(' ~ start ~ ' as date)', 'cast(' ~ end ~ ' as date)') }} as day_date
        from {{ relation }}
    ) as spans
    where {{ end }} > {{ day_start('day_date') }} or cast({{ start }} as date) = day_date
{%- endmacro %}


{# Merges spans that touch or overlap: a row per key and unbroken spell. #}
{% macro unbroken_spells(relation, keys, start, end, id) -%}
    select
        {{ keys | join(', ') }},
        min({{ start }}) as started_at,
        max({{ end }}) as ended_at
    from (
        select
            *,
            sum(case when {{ start }} <= reached then 0 else 1 end) over (
                partition by {{ keys | join(', ') }} order by {{ start }}, {{ end }}, {{ id }}
                rows between unbounded preceding and current row
            ) as spell
        from (
            select
                *,
                max({{ end }}) over (
                    partition by {{ keys | join(', ') }} order by {{ start }}, {{ end }}, {{ id }}
                    rows between unbounded preceding and 1 preceding
                ) as reached
            from {{ relation }}
        ) as ordered
    ) as numbered
    group by {{ keys | join(', ') }}, spell
{%- endmacro %}


{# Seconds of a span that no earlier span of its partition covers, so that sums count them once. #}
{% macro newly_covered_s(start, end, keys, id) -%}
    greatest({{ seconds_between(
        'greatest(' ~ start ~ ', coalesce(max(' ~ end ~ ') over (partition by ' ~ keys | join(', ')
        ~ ' order by ' ~ start ~ ', ' ~ end ~ ', ' ~ id
        ~ ' rows between unbounded preceding and 1 preceding), ' ~ start ~ '))', end
    ) }}, 0)
{%- endmacro %}


{# A sum of seconds, limited to one day because rounding errors of its parts add up. #}
{% macro seconds_of_day(value, digits=3) -%}
    case when {{ exact_sum(value, digits) }} > 86400 then 86400.0 else {{ exact_sum(value, digits) }} end
{%- endmacro %}


{# The values of a sample that it can have: bytes up to a petabyte, a period of up to 31 days. Others are
   null, because they would only hide the true ones in a sum. #}
{% macro byte_count(value) -%}
    case when {{ value }} between 0 and 1e15 then {{ value }} end
{%- endmacro %}

{% macro period_length(value) -%}
    case when {{ value }} between 0 and 2678400 then {{ value }} end
{%- endmacro %}


{# Bytes in plus bytes out; if one of them is unknown, the other. #}
{% macro bytes_both_ways(in_bytes, out_bytes) -%}
    coalesce({{ byte_count(in_bytes) }} + {{ byte_count(out_bytes) }}, {{ byte_count(in_bytes) }}, {{ byte_count(out_bytes) }})
{%- endmacro %}

{# Whether health is far above that of the five readings before: the battery was replaced under the same
   id. A few readings that are too low prove nothing. #}
{% macro is_replaced(moment) -%}
    health_pct >= {{ var('battery_replaced_pct') }} + max(health_pct) over (
        partition by battery_id order by {{ moment }} rows between 5 preceding and 1 preceding
    )
{%- endmacro %}
