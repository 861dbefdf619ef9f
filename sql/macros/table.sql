{# In place of the adapter's: it makes a second table, renames both and drops the old one, in five more
   statements per model. DuckDB replaces a table in the model's transaction. #}
{% materialization table, adapter="duckdb" %}
    {%- set existing, target_relation = load_cached_relation(this), this.incorporate(type='table') -%}
    {{ run_hooks(pre_hooks, inside_transaction=False) }}
    {{ run_hooks(pre_hooks, inside_transaction=True) }}
    {% if existing is not none and not existing.is_table %}{% do drop_relation(existing) %}{% endif %}
    {% call statement('main') -%}
        {{ config.get('sql_header') or '' }}
        create or replace table {{ target_relation }}
        {% if config.get('contract').enforced -%}
            {{ get_assert_columns_equivalent(compiled_code) }}
            {{ get_table_columns_and_constraints() }};
            insert into {{ target_relation }} {{ get_column_names() }} ({{ get_select_subquery(compiled_code) }})
        {%- else -%}
            as ({{ compiled_code }})
        {%- endif %}
    {%- endcall %}
    {% do create_indexes(target_relation) %}
    {{ run_hooks(post_hooks, inside_transaction=True) }}
    {{ adapter.commit() }}
    {{ run_hooks(post_hooks, inside_transaction=False) }}
    {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}

{# A contract is checked when a table is new and in full builds, such as the one after each change of
   the project. #}
{% macro duckdb__get_assert_columns_equivalent(sql) %}
    {%- if flags.FULL_REFRESH or load_cached_relation(this) is none -%}
        {{ assert_columns_equivalent(sql) }}
    {%- endif -%}
{% endmacro %}
