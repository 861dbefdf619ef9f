{# Rows that are new since a model was last built.

   An incremental model consists of units, such as a device and a UTC day (`meta.unit`). A build
   recomputes and replaces exactly the units touched by rows committed since the model's last
   build, whatever their event time: a late row changes its own unit, a row that was read again
   changes none. "Since" means the lake's commit number, not a clock or an event time. In a mirror for
   another engine, that number is a column; sql/macros/spark.sql says how units are replaced there. #}

{% macro make_state() -%}
    {% if target.type == 'duckdb' %}
    create schema if not exists state;
    create table if not exists state.built (model varchar, snapshot_id bigint, built_at timestamptz);
    create table if not exists state.confirmations (model varchar, confirmations bigint)
    {% endif %}
{%- endmacro %}

{# Pre-hook: store in variables which snapshot of the lake the last build of this model read, and when. A
   variable is a constant to DuckDB, which skips files by it. A query for Jinja would make each build's
   statements differ, and `fleetlake build` repeats those of an earlier one. #}
{% macro recall_built() -%}
    {% if is_incremental() and target.type == 'duckdb' %}
    set variable built_snapshot = (select coalesce(max(snapshot_id), -1) from state.built where model = '{{ this.name }}');
    set variable last_built_at = (select coalesce(max(built_at), '-infinity') from state.built where model = '{{ this.name }}')
    {% endif %}
{%- endmacro %}

{# What a build elsewhere was told about the model's last build: `snapshot`, and when it was (`at`). #}
{% macro last_read() -%}
    {{ return(var('built', {}).get(this.name, {})) }}
{%- endmacro %}

{# The rows of a raw table that were committed since this model was last built. #}
{% macro is_new_row() -%}
    snapshot_id > {% if target.type == 'spark' %}{{ last_read().get('snapshot', -1) }}{% else %}getvariable('built_snapshot'){% endif %}
{%- endmacro %}

{# The rows of an incremental model that were computed since this model was last built. #}
{% macro is_recomputed() -%}
    built_at > {% if target.type == 'spark' %}timestamp '{{ last_read().get('at', '') }}'{% else %}getvariable('last_built_at'){% endif %}
{%- endmacro %}

{# The rows of a relation in touched units; all rows in a full build. #}
{% macro in_touched(columns, touched) -%}
    {%- if is_incremental() and target.type == 'spark' and 'unit' in config.get('meta', {}) -%}{{ in_found(columns) }}
    {%- elif is_incremental() -%}({{ columns | join(', ') }}) in ({{ touched }}){%- else -%}true{%- endif -%}
{%- endmacro %}

{# Pre-hook: store the touched units in a table, and delete their rows from the model. It is for a
   query that reads the model itself, so it must run before the rows are gone. A column of a unit may
   be null. A variable holds the first touched day: DuckDB compares it before it joins. #}
{% macro forget_found(touched) -%}
    {% if is_incremental() and target.type == 'spark' %}
    {% do write_table(touched_table(), touched) %}
    {% elif is_incremental() %}
    create or replace table {{ touched_table() }} as {{ touched }};
    set variable touched_from = (select min(columns('.*_date')) from {{ touched_table() }});
    delete from {{ this }} where {{ in_found(config.get('meta')['unit']) }}
    {% endif %}
{%- endmacro %}

{% macro touched_table() -%}
    {{ return(api.Relation.create(schema='state', identifier='touched_' ~ this.name)) }}
{%- endmacro %}

{# The column of a unit that is a UTC day; none if it has none. #}
{% macro date_of(unit) -%}
    {% for column in unit if column.endswith('_date') %}{{ return(column) }}{% endfor %}
    {{ return(none) }}
{%- endmacro %}

{# The first UTC day of the touched units, before which nothing has to be read. #}
{% macro touched_from() -%}
    {% if target.type == 'spark' %}(select min({{ date_of(config.get('meta')['unit']) }}) from {{ touched_table() }}){% else %}getvariable('touched_from'){% endif %}
{%- endmacro %}

{# The condition for rows of the touched units in that table; true for all rows in a full build. #}
{% macro in_found(columns) -%}
    {%- if is_incremental() -%}
    {{ is_one_of(columns, touched_table()) }}
    {%- else -%}true{%- endif -%}
{%- endmacro %}

{# The rows that touched units can depend on: those of the same devices, starting some days before. #}
{% macro in_reach(device, event, touched, days) -%}
    {%- if is_incremental() -%}
        {{ device }} in (select {{ device }} from ({{ touched }}))
        and {{ event }} >= {{ day_start(touched_from()) }} - interval {{ days }} day
    {%- else -%}true{%- endif -%}
{%- endmacro %}

{# Pre-hook: delete the units that are about to be recomputed; a variable holds their first day. #}
{% macro forget(touched) -%}
    {% if target.type == 'spark' %}{{ return(forget_found(touched)) }}{% endif %}
    {% if is_incremental() %}
    set variable touched_from = (select min(columns('.*_date')) from ({{ touched }}));
    delete from {{ this }} where {{ in_touched(config.get('meta')['unit'], touched) }}
    {% endif %}
{%- endmacro %}

{# Post-hook, in the same transaction: record which snapshot was read. #}
{% macro remember_built() -%}
    {% if target.type == 'duckdb' %}
    delete from state.built where model = '{{ this.name }}';
    insert into state.built
    values ('{{ this.name }}', getvariable('build_snapshot'), {{ built_at() }})
    {% endif %}
{%- endmacro %}

{# Post-hook, in the same transaction: record how many confirmations of pushes there were. #}
{% macro remember_confirmations() -%}
    {% if target.type == 'duckdb' %}
    delete from state.confirmations where model = '{{ this.name }}';
    insert into state.confirmations
    select '{{ this.name }}', count(*) from {{ source('meta', 'confirmations') }}
    {% endif %}
{%- endmacro %}

{# Pre-hook: store whether a confirmation was deleted since this model was last built. A deletion leaves
   no new row, so the earlier ones are counted. #}
{% macro recall_confirmations() -%}
    {% if is_incremental() and target.type == 'duckdb' %}
    set variable has_lost_confirmations = (
        select count(*) is distinct from (select max(confirmations) from state.confirmations where model = '{{ this.name }}')
        from {{ source('meta', 'confirmations') }}
        where not ({{ is_new_row() }})
    )
    {% endif %}
{%- endmacro %}

{# Whether samples cover a whole UTC day: they neither begin nor end within it. A sample whose period
   began at midnight may be an hour long. Samples from after the last read have a wrong clock. #}
{% macro is_sampled_whole(date, first, last) -%}
    coalesce({{ first }} <= {{ day_start(date) }} + interval 1 hour
        and least({{ last }}, (select max(read_until) + interval {{ var('clock_ahead_s') }} second from {{ source('meta', 'reads') }}))
            >= {{ day_start(date) }} + interval 1 day, false)
{%- endmacro %}

{# The first or last time of all samples (`which` is min or max): those read, and those of earlier builds. #}
{% macro of_all_samples(which) -%}
    {%- set column = {'min': 'first_sampled_at', 'max': 'last_sampled_at'}[which] -%}
    {%- set read = which ~ '(' ~ which ~ '(sampled_at)) over ()' -%}
    {%- if is_incremental() and target.type == 'spark' -%}
        {{ {'min': 'least', 'max': 'greatest'}[which] }}({{ read }}, (select {{ which }}({{ column }}) from {{ this }}))
    {%- else -%}{{ read }}{%- endif -%}
{%- endmacro %}

{# Units that may have become complete without a new sample, where no row can be updated. #}
{% macro or_incomplete(columns) -%}
    {% if is_incremental() and target.type == 'spark' %}union select {{ columns | join(', ') }} from {{ this }} where not is_complete{% endif %}
{%- endmacro %}

{# Post-hook: a day becomes complete without a new sample of the same interface. #}
{% macro mark_complete(date) -%}
    {% if is_incremental() and target.type == 'duckdb' %}
    update {{ this }} set is_complete = not is_complete, built_at = {{ built_at() }}
    where is_complete <> {{ is_sampled_whole(
        date, '(select min(first_sampled_at) from ' ~ this ~ ')', '(select max(last_sampled_at) from ' ~ this ~ ')'
    ) }}
    {% endif %}
{%- endmacro %}

{# The build's time, in the rows that it computes: the clock's, but later than any build before. #}
{% macro built_at() -%}{{ return(adapter.dispatch('built_at')()) }}{%- endmacro %}
{% macro default__built_at() -%}cast(getvariable('built_at') as timestamp with time zone){%- endmacro %}
{% macro spark__built_at() -%}timestamp '{{ var('built_at', '') }}'{%- endmacro %}
