{# Tables on Spark. `fleetlake build --on` (src/fleetlake/marts/on_target.py) sets the variables:
   `storage` and `build` say where the tables of this build lie, and `built` what models last read.

   A table is written into a folder of this build's and then takes the place of the one before. An
   incremental one with a date in its unit is partitioned by it: later builds write the touched days
   into folders of their own, and the table has them there from then on. So no file of an earlier build
   is changed, and what a build that was killed still writes is in no table. #}

{# Show the engine the parts of the mirror's `version`, and what builds have made and its catalog has
   lost. The catalog notes that version. Unless it has noted the one that the last good build has
   `shown`, show it all tables: another cluster has built since, or the last build was killed, and a
   table that took its new place then is in a folder that the next build removes. Schemas that exist
   without our comment are those of others, or of another lake, whose tables must neither be replaced
   nor read. #}
{% macro show_tables(mirrored, made, views, shown, version, storage) %}
    {% set ours = 'Built by fleetlake in ' ~ storage %}
    {% set schemas = ['raw', 'meta', 'staging', 'intermediate', 'marts', 'state'] %}
    {% set schemas = (schemas + made | map(attribute='schema') | list + views | map('first') | list) | unique | list %}
    {% for schema in schemas %}
        {% do run_query('create schema if not exists ' ~ schema ~ " comment '" ~ ours ~ "'") %}
        {% set comments = [] %}
        {% for row in run_query('describe schema ' ~ schema) if row[0] == 'Comment' %}{% do comments.append(row[1]) %}{% endfor %}
        {% if comments != [ours] %}
            {% do exceptions.raise_compiler_error('Its schema ' ~ schema ~ ' is not the one built by fleetlake in ' ~ storage) %}
        {% endif %}
    {% endfor %}
    {% set noted = [] %}
    {% for row in run_query('describe schema extended state') if '(fleetlake.shown,' ~ shown ~ ')' in row[1] | string %}{% do noted.append(row) %}{% endfor %}
    {% set is_known = shown and noted %}
    {% do run_query("alter schema state set dbproperties ('fleetlake.shown' = '" ~ version ~ "')") %}
    {% set known, known_views = [], [] %}
    {% for schema in schemas %}
        {% for row in run_query('show tables in ' ~ schema) %}{% do known.append(schema ~ '.' ~ row[1]) %}{% endfor %}
        {% for row in run_query('show views in ' ~ schema) %}{% do known_views.append(schema ~ '.' ~ row[1]) %}{% endfor %}
    {% endfor %}
    {% for table in mirrored %}
        {% do show_mirrored(table, not is_known or table.schema ~ '.' ~ table.name not in known) %}
    {% endfor %}
    {% for table in made if not is_known or table.schema ~ '.' ~ table.name not in known %}
        {% set name = table.schema ~ '.' ~ table.name %}
        {% do run_query('drop ' ~ ('view' if name in known_views else 'table') ~ ' if exists ' ~ name) %}
        {% do run_query('create table ' ~ name ~ " using parquet location '" ~ table.place ~ "'") %}
        {% do add_days(name, table.column, table.days, table.days | list) %}
    {% endfor %}
    {% for schema, name, sql in views if not is_known or schema ~ '.' ~ name not in known %}
        {% set view = schema ~ '.' ~ name %}
        {% if view in known and view not in known_views %}{% do run_query('drop table ' ~ view) %}{% endif %}
        {% do run_query('create or replace view ' ~ view ~ ' as ' ~ sql) %}
    {% endfor %}
{% endmacro %}

{# A schema that dbt creates, for models of your own: with the comment that `show_tables` asks for. #}
{% macro spark__create_schema(relation) %}
    {% call statement('create_schema') %}
        create schema if not exists {{ relation }} comment 'Built by fleetlake in {{ var('storage', '') }}'
    {% endcall %}
{% endmacro %}

{% macro show_mirrored(table, is_lost) %}
    {% set name = table.schema ~ '.' ~ table.name %}
    {% if is_lost or table.is_other %}
        {% do run_query('drop table if exists ' ~ name) %}
        {% set columns = table.columns + ['`snapshot_id` bigint', '`mirror_day` string'] %}
        {% do run_query('create table ' ~ name ~ ' (' ~ columns | join(', ') ~ ') using parquet partitioned by (mirror_day) location \'' ~ table.place ~ "'") %}
        {% do add_days(name, 'mirror_day', table.parts, table.parts | list) %}
    {% else %}
        {% do move_days(name, 'mirror_day', table.parts, table.changed) %}
        {% for day in table.gone %}
            {% do run_query('alter table ' ~ name ~ " drop if exists partition (mirror_day = '" ~ day ~ "')") %}
        {% endfor %}
    {% endif %}
{% endmacro %}

{# Give a partitioned table days that it lacks, each with its folder. #}
{% macro add_days(name, column, folders, days) %}
    {% for some in days | batch(200) %}
        {% set parts %}{% for day in some %} partition ({{ column }} = '{{ day }}') location '{{ folders[day] }}'{% endfor %}{% endset %}
        {% do run_query('alter table ' ~ name ~ ' add if not exists' ~ parts) %}
    {% endfor %}
{% endmacro %}

{# Give days of a partitioned table, which it has or lacks, another folder. #}
{% macro move_days(name, column, folders, days) %}
    {% do add_days(name, column, folders, days) %}
    {% for day in days %}
        {% do run_query('alter table ' ~ name ~ ' partition (' ~ column ~ " = '" ~ day ~ "') set location '" ~ folders[day] ~ "'") %}
    {% endfor %}
{% endmacro %}

{# The folder of a table that this build writes. #}
{% macro place_of(relation) -%}
    {{ var('storage', '') }}/tables/{{ relation.schema }}/{{ relation.identifier }}/{{ var('build', '') }}
{%- endmacro %}

{# A query whose common table expressions are evaluated once. Spark copies one that is used twice into
   both places, and a chain of ten of them so often that planning takes minutes and gigabytes. It
   leaves together what is not deterministic, so a condition with a random number stops that. #}
{% macro evaluated_once(sql) %}
    {% set told = namespace(sql='\n' ~ sql) %}
    {% for name in modules.re.findall('(?m)^(?:with )?([a-z0-9_]+) as [(]$', sql) %}
        {% if modules.re.findall('(?:from|join)[ ]+' ~ name ~ '(?![a-z0-9_])', sql) | length > 1 %}
            {% set before, head, rest = told.sql.partition(name ~ ' as (\n') %}
            {% set body, end, after = rest.partition('\n)') %}
            {% set told.sql = before ~ name ~ ' as (select * from (\n' ~ body ~ '\n) where rand() >= 0)' ~ after %}
        {% endif %}
    {% endfor %}
    {{ return(told.sql) }}
{% endmacro %}

{# A query for no row of a table, without its column `partition`. #}
{% macro no_row_of(relation, partition) -%}
    select {% for column in adapter.get_columns_in_relation(relation) if column.name != partition -%}
        cast(null as {{ column.dtype }}) as {{ column.name }}{{ '' if loop.last else ', ' }}
    {%- endfor %} where false
{%- endmacro %}

{# Write a table, and put it in the place of the one before.

   A partitioned table without rows has no file, so its columns are known only to the catalog. One
   partition, of a day that nothing happens on, has a file without rows. It also says that this folder
   does not just hold some days. #}
{% macro write_table(relation, sql, partition=none) %}
    {% set new = write_rows(relation, sql, partition) %}
    {% if partition %}
        {% do write_empty_day(relation, new, partition, '0001-02-03') %}
        {% do run_query('alter table ' ~ new ~ ' add if not exists partition (' ~ partition ~ " = '0001-02-03')") %}
    {% endif %}
    {% set old = load_cached_relation(relation) %}
    {% do run_query('drop ' ~ (old.type if old else 'table') ~ ' if exists ' ~ relation) %}
    {% do run_query('alter table ' ~ new ~ ' rename to ' ~ relation) %}
{% endmacro %}

{# Write the rows of a query into this build's folder of a table; return a table that has them. #}
{% macro write_rows(relation, sql, partition=none) %}
    {% set new = api.Relation.create(schema=relation.schema, identifier=relation.identifier ~ '__new') %}
    {% do run_query('drop table if exists ' ~ new) %}
    {% call statement('main') %}
        create table {{ new }} using parquet
        {% if partition %}partitioned by ({{ partition }}){% endif %}
        location '{{ place_of(relation) }}'
        as {{ sql }}
    {% endcall %}
    {{ return(new) }}
{% endmacro %}

{# Write a file without rows for a day of a table, in this build's folder. #}
{% macro write_empty_day(relation, new, partition, day) %}
    {% set folder = place_of(relation) ~ '/' ~ partition ~ '=' ~ day %}
    {% do run_query("insert overwrite directory '" ~ folder ~ "' using parquet " ~ no_row_of(new, partition)) %}
{% endmacro %}

{# Write days of a partitioned table, and give it them in place of its own. A day of the touched units
   that has no row left gets a file without rows. #}
{% macro replace_days(relation, sql, partition, touched) %}
    {% set new = write_rows(relation, sql, partition) %}
    {% set before, days, folders = [], [], {} %}
    {% for row in run_query('show partitions ' ~ relation) %}{% do before.append(row[0].split('=')[1]) %}{% endfor %}
    {% for row in run_query('show partitions ' ~ new) %}{% do days.append(row[0].split('=')[1]) %}{% endfor %}
    {% for row in run_query('select distinct cast(' ~ partition ~ ' as string) from ' ~ touched) if row[0] in before and row[0] not in days %}
        {% do write_empty_day(relation, new, partition, row[0]) %}
        {% do days.append(row[0]) %}
    {% endfor %}
    {% for day in days %}{% do folders.update({day: place_of(relation) ~ '/' ~ partition ~ '=' ~ day}) %}{% endfor %}
    {% do move_days(relation, partition, folders, days) %}
    {% do run_query('drop table ' ~ new) %}
{% endmacro %}

{% materialization table, adapter="spark" %}
    {{ run_hooks(pre_hooks) }}
    {% do write_table(this, evaluated_once(compiled_code)) %}
    {{ run_hooks(post_hooks) }}
    {{ return({'relations': [this.incorporate(type='table')]}) }}
{% endmaterialization %}

{# A query that has the first touched day as a constant. Spark skips files and parts of files by a
   constant, but not by what a query returns, so builds of an hour read all rows. #}
{% macro with_first_day(sql, day, touched) %}
    {% if not day or touched_from() not in sql %}{{ return(sql) }}{% endif %}
    {% set first = run_query('select cast(min(' ~ day ~ ') as string) from ' ~ touched).rows[0][0] %}
    {{ return(sql | replace(touched_from(), "cast('" ~ first ~ "' as date)" if first else 'cast(null as date)')) }}
{% endmacro %}

{% materialization incremental, adapter="spark" %}
    {% set unit = config.get('meta', {}).get('unit') or [config.get('unique_key')] %}
    {% set day = date_of(unit) %}
    {{ run_hooks(pre_hooks) }}
    {% if not is_incremental() %}
        {% do write_table(this, evaluated_once(compiled_code), day) %}
    {% else %}
        {% set held = adapter.get_columns_in_relation(this) %}
        {% set columns = held | map(attribute='name') | join(', ') %}
        {% set typed %}{% for column in held %}cast({{ column.name }} as {{ column.dtype }}) as {{ column.name }}{{ '' if loop.last else ', ' }}{% endfor %}{% endset %}
        {% set touched = touched_table() %}
        {% if config.get('unique_key') %}
            {% do write_table(touched_table(), evaluated_once(compiled_code)) %}
            {% set fresh = 'select ' ~ typed ~ ' from ' ~ touched %}
        {% else %}
            {% set query = with_first_day(evaluated_once(compiled_code), day, touched) %}
            {% set fresh = 'select ' ~ typed ~ ' from (' ~ query ~ ')' %}
        {% endif %}
        {% set is_same %}{% for column in unit %}kept.{{ column }} <=> touched.{{ column }}{{ '' if loop.last else ' and ' }}{% endfor %}{% endset %}
        {% set kept %}
            select {{ columns }} from {{ this }} as kept
            {% if day %}left semi join (select distinct {{ day }} from {{ touched }}) as days on kept.{{ day }} = days.{{ day }}{% endif %}
            left anti join {{ touched }} as touched on {{ is_same }}
        {% endset %}
        {% if day %}
            {% do replace_days(this, kept ~ ' union all ' ~ fresh, day, touched) %}
        {% else %}
            {% do write_table(this, kept ~ ' union all ' ~ fresh) %}
        {% endif %}
    {% endif %}
    {{ run_hooks(post_hooks) }}
    {{ return({'relations': [this.incorporate(type='table')]}) }}
{% endmaterialization %}

{# Create a seed's table. One without rows gets a file that has its columns, as any other table does. #}
{% macro spark__create_csv_table(model, agate_table) %}
    {% set columns %}{% for name in agate_table.column_names %}cast(null as {{ model['config'].get('column_types', {}).get(name, adapter.convert_type(agate_table, loop.index0)) }}) as {{ adapter.quote_seed_column(name, none) }}{{ '' if loop.last else ', ' }}{% endfor %}{% endset %}
    {% call statement('_') %}
        create table {{ this.render() }} using parquet location '{{ place_of(this) }}' as select {{ columns }} where false
    {% endcall %}
{% endmacro %}

{# Whether a model keeps its rows: on Spark only if a build has noted what it read. #}
{% macro is_incremental() %}
    {% if target.type == 'spark' and this and this.identifier not in var('built', {}) %}{{ return(false) }}{% endif %}
    {{ return(dbt.is_incremental()) }}
{% endmacro %}
