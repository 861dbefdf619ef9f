{# Loads a seed. The adapter's own macro takes quotes and stars in the seed's path for SQL. #}
{% macro duckdb__load_csv_rows(model, agate_table) %}
    {% set pattern = adapter.get_seed_file_path(model) | replace("[", "[[]") | replace("*", "[*]") %}
    {% set path = pattern | replace("'", "''") %}
    {% set sql %}
        copy {{ this.render() }} from '{{ path }}'
        (format csv, header true, delimiter '{{ config.get("delimiter", ",") }}')
    {% endset %}
    {% do adapter.add_query(sql, abridge_sql_log=True) %}
    {{ return(sql) }}
{% endmacro %}
