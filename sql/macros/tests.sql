{# Data tests: each is a query of the bad rows. #}

{# The rows that no build has tested yet. Of an incremental model, these are the rows newer than
   those in the lake, because rows enter the lake only after all tests pass. #}
{% macro is_untested(model) -%}
    {%- if execute and target.type == 'duckdb' and not flags.FULL_REFRESH -%}
        {%- set nodes = graph.nodes.values() | selectattr('name', 'equalto', model.identifier) -%}
        {%- if (nodes | first).config.materialized == 'incremental' -%}
            {%- set published = adapter.get_relation('lake', model.schema, model.identifier) -%}
            {%- if published -%}
                {{ return("built_at > (select coalesce(max(built_at), '-infinity') from " ~ published ~ ")") }}
            {%- endif -%}
        {%- endif -%}
    {%- endif -%}
    {{ return('true') }}
{%- endmacro %}

{# Keys with more than one row; untested rows are counted together with all rows of their key. #}
{% test one_row_per(model, columns) %}
{%- set key, untested = columns | join(', '), is_untested(model) %}
select {{ key }}, count(*) as row_count
from {{ model }}
{% if untested != 'true' -%}
where ({{ key }}) in (select {{ key }} from {{ model }} where {{ untested }})
{% endif -%}
group by {{ key }}
having count(*) > 1
{% endtest %}

{# Rows for which a rule is false; a rule that is null counts as true. #}
{% test holds(model, rule) %}
select *
from {{ model }}
where not ({{ rule }}) and {{ is_untested(model) }}
{% endtest %}

{# Rows of a day before the lake's first evidence, or after its current time. A device's clock, and the
   first day of a month, may be some days earlier. #}
{% test within_evidence(model, column, days_before=0, days_after=0) %}
select m.*
from {{ model }} as m
cross join {{ ref('int_as_of') }} as a
where not m.{{ column }} between cast(a.known_from as date) - {{ days_before }} and cast(a.known_until as date) + {{ days_after }}
    and {{ is_untested(model) }}
{% endtest %}

{# Rows of a day in which a column of seconds is below 0 or longer than the day. #}
{% test seconds_of_one_day(model, columns) %}
select *
from {{ model }}
where not ({% for column in columns %}
    coalesce({{ column }}, 0) between 0 and 86400{{ ' and' if not loop.last }}
    {%- endfor %}) and {{ is_untested(model) }}
{% endtest %}

{# Rows whose text no rule understood, so that the column is null. #}
{% test understood(model, column) %}
select * from {{ model }} where {{ column }} is null
{% endtest %}
