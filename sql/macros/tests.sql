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

{# Whether a row's key is one of the doubled ones; where no subquery may stand there, by its `key_rows`. #}
{% macro is_doubled(columns, doubled) -%}
    {%- set key = columns | join(', ') -%}
    {%- if target.type == 'duckdb' -%}row({{ key }}, 0) in (select row({{ key }}, 0) from ({{ doubled }}) as doubled)
    {%- else -%}key_rows > 1{%- endif -%}
{%- endmacro %}

{# Keys with more than one row; untested rows are counted together with all rows of their key.

   With rules, columns of seconds or a date, as of the tests below, it is one query for all of them,
   since each test costs dbt more than its query: `broken` is the first that is false for a row. #}
{% test one_row_per(model, columns, rules=[], seconds=[], date=none, days_before=0, days_after=0) %}
{%- set key, untested = columns | join(', '), is_untested(model) -%}
{%- set doubled -%}
select {{ key }}, count(*) as row_count
from {{ model }}
{% if untested != 'true' -%}
where ({{ key }}) in (select {{ key }} from {{ model }} where {{ untested }})
{% endif -%}
group by {{ key }}
having count(*) > 1
{%- endset -%}
{%- set rules = rules | list -%}
{%- for column in seconds -%}{%- do rules.append('coalesce(' ~ column ~ ', 0) between 0 and 86400') -%}{%- endfor -%}
{%- if not rules and not date %}
{{ doubled }}
{%- else %}
select * from (
    select
        case
            when {{ is_doubled(columns, doubled) }} then 'one row per {{ key }}'
            {%- for rule in rules %}
            when not ({{ rule }}) then '{{ rule | replace("'", "''") }}'
            {%- endfor %}
            {%- if date %}
            when {{ is_outside_evidence(date, days_before, days_after) }} then '{{ date }} within evidence'
            {%- endif %}
        end as broken,
        *
    from {{ model if target.type == 'duckdb' else '(select *, count(*) over (partition by ' ~ key ~ ') as key_rows from ' ~ model ~ ')' }}
    where {{ untested }}
) as judged
where broken is not null
{%- endif %}
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
select *
from {{ model }}
where {{ is_outside_evidence(column, days_before, days_after) }} and {{ is_untested(model) }}
{% endtest %}

{% macro is_outside_evidence(date, days_before, days_after) -%}
    ({{ date }} < (select cast(known_from as date) - {{ days_before }} from {{ ref('int_as_of') }})
    or {{ date }} > (select cast(known_until as date) + {{ days_after }} from {{ ref('int_as_of') }}))
{%- endmacro %}

{# Rows whose text no rule understood, so that the column is null. #}
{% test understood(model, column) %}
select * from {{ model }} where {{ column }} is null
{% endtest %}
