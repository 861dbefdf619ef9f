{# A table of the scratch file, in place of the adapter's: one statement builds and replaces it. The
   adapter renames two tables and drops one by statements of their own, and compares the columns with
   the contract by queries. A changed project is built in full, so only a full build compares them. #}
{% materialization table, adapter="duckdb" %}
    {%- set old, table = load_cached_relation(this), this.incorporate(type='table') -%}
    {%- set new = make_intermediate_relation(table) -%}
    {{ run_hooks(pre_hooks, inside_transaction=False) }}
    {{ run_hooks(pre_hooks) }}
    {% call statement('main') %}
        {% if old and config.get('contract').enforced and not flags.FULL_REFRESH %}
        create table {{ new }} {{ get_table_columns_and_constraints() }};
        insert into {{ new }} {{ get_column_names() }} ({{ get_select_subquery(compiled_code) }});
        {% else %}
        {{ create_table_as(False, new, compiled_code) }}
        {% endif %}
        drop {{ old.type if old else 'table' }} if exists {{ table }};
        alter table {{ new }} rename to {{ adapter.quote(this.identifier) }}
    {% endcall %}
    {% do create_indexes(table) %}
    {{ run_hooks(post_hooks) }}
    {% do adapter.commit() %}
    {{ run_hooks(post_hooks, inside_transaction=False) }}
    {{ return({'relations': [table]}) }}
{% endmaterialization %}
