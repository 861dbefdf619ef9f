{# Data tests: each is a query of the bad rows. #}

{# The rows that no build has tested: of an incremental model those that are newer than the ones
   that the lake has taken over, which it does when all tests are passed. #}
{% macro is_untested(model) -%}
    {%- if execute and target.type == 'duckdb' and not flags.FULL_REFRESH -%}
        {%- set published = adapter.get_relation('lake', model.schema, model.identifier) -%}
        {%- set nodes = graph.nodes.values() | selectattr('name', 'equalto', model.identifier) -%}
        {%- if published and (nodes | first).config.materialized == 'incremental' -%}
            {{ return("built_at > (select coalesce(max(built_at), '-infinity') from " ~ published ~ ")") }}
        {%- endif -%}
    {%- endif -%}
    {{ return('true') }}
{%- endmacro %}

{# More than one row where the grain says one; a row that no build has tested is counted together
   with all that are like it. #}
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

{# Rows for which a rule does not hold; a rule that cannot be told (null) holds. #}
{% test holds(model, rule) %}
select *
from {{ model }}
where not ({{ rule }}) and {{ is_untested(model) }}
{% endtest %}

{# Rows of a day in which a column of seconds is below 0 or longer than the day. #}
{% test seconds_of_one_day(model, columns) %}
select *
from {{ model }}
where not ({% for column in columns %}
    coalesce({{ column }}, 0) between 0 and 86400{{ ' and' if not loop.last }}
    {%- endfor %}) and {{ is_untested(model) }}
{% endtest %}
