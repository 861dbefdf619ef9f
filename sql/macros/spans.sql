{# How long two half-open spans of time overlap, in seconds; 0 when they do not touch. #}
{% macro overlap_s(start, end, other_start, other_end) -%}
    greatest({{ seconds_between(
        'greatest(' ~ start ~ ', ' ~ other_start ~ ')', 'least(' ~ end ~ ', ' ~ other_end ~ ')'
    ) }}, 0)
{%- endmacro %}


{# How much of the time between two readings a value was at or below a level, from 0 to 1, if it
   moved evenly from the one to the other. For "at or above" give all three negated. #}
{% macro share_at_or_below(before, after, level) -%}
    case
        when {{ before }} <= {{ level }} and {{ after }} <= {{ level }} then 1.0
        when {{ before }} > {{ level }} and {{ after }} > {{ level }} then 0.0
        when {{ after }} <= {{ level }} then ({{ level }} - ({{ after }})) / (1e0 * ({{ before }} - ({{ after }})))
        else ({{ level }} - ({{ before }})) / (1e0 * ({{ after }} - ({{ before }})))
    end
{%- endmacro %}


{# Sums and means of measurements by exact decimals: sums of floating-point numbers depend on
   their order, and the same rows are to give the same marts however they came. #}
{% macro exact_sum(value, digits=3) -%}
    cast(sum(cast({{ value }} as decimal(28, {{ digits }}))) as double)
{%- endmacro %}

{% macro exact_mean(value, digits=1) -%}
    floor(cast(sum(cast({{ value }} as decimal(28, 7))) as double) / count({{ value }}) * 1e{{ digits }} + 0.5e0) / 1e{{ digits }}
{%- endmacro %}
