{# SQL that differs between adapters. Everything else in this project is common SQL. #}

{# Seconds from one instant to another, with fractions. #}
{% macro seconds_between(start, end) -%}
    {{ return(adapter.dispatch('seconds_between')(start, end)) }}
{%- endmacro %}

{% macro default__seconds_between(start, end) -%}
    (epoch({{ end }}) - epoch({{ start }}))
{%- endmacro %}

{% macro spark__seconds_between(start, end) -%}
    ((unix_micros({{ end }}) - unix_micros({{ start }})) / 1000000.0D)
{%- endmacro %}


{# The instant a number of seconds (an integer or a column) after another. More than 3,000 years count
   as 3,000 years, because databases have no later or earlier instants. #}
{% macro seconds_after(instant, seconds) -%}
    {%- set micros -%}
    cast(round(case when ({{ seconds }}) > 1e11 then 1e17 when ({{ seconds }}) < -1e11 then -1e17
        else ({{ seconds }}) * 1e6 end) as bigint)
    {%- endset -%}
    {{ return(adapter.dispatch('seconds_after')(instant, micros)) }}
{%- endmacro %}

{% macro default__seconds_after(instant, micros) -%}
    ({{ instant }} + to_microseconds({{ micros }}))
{%- endmacro %}

{% macro spark__seconds_after(instant, micros) -%}
    timestamp_micros(unix_micros({{ instant }}) + {{ micros }})
{%- endmacro %}


{# A member of a JSON column as text; the path is dotted: 'info.port'. #}
{% macro json_text(column, path) -%}
    {{ return(adapter.dispatch('json_text')(column, path)) }}
{%- endmacro %}

{% macro default__json_text(column, path) -%}
    json_extract_string({{ column }}, '$.{{ path }}')
{%- endmacro %}

{% macro spark__json_text(column, path) -%}
    get_json_object({{ column }}, '$.{{ path }}')
{%- endmacro %}


{# A row per UTC day from one date to another, both included; for use in a select list. #}
{% macro explode_days(first, last) -%}
    {{ return(adapter.dispatch('explode_days')(first, last)) }}
{%- endmacro %}

{% macro default__explode_days(first, last) -%}
    cast(unnest(generate_series(cast({{ first }} as timestamp), {{ last }}, interval 1 day)) as date)
{%- endmacro %}

{% macro spark__explode_days(first, last) -%}
    explode(case when {{ first }} <= {{ last }} then sequence({{ first }}, {{ last }}, interval 1 day) else array() end)
{%- endmacro %}


{# The instant at which a UTC day begins; the session's time zone is UTC everywhere. #}
{% macro day_start(date) -%}
    {{ return(adapter.dispatch('day_start')(date)) }}
{%- endmacro %}

{% macro default__day_start(date) -%}
    cast({{ date }} as timestamp with time zone)
{%- endmacro %}

{% macro spark__day_start(date) -%}
    cast({{ date }} as timestamp)
{%- endmacro %}


{# The instant that a text means; null if it means none. #}
{% macro instant_of(text) -%}
    {{ return(adapter.dispatch('instant_of')(text)) }}
{%- endmacro %}

{% macro default__instant_of(text) -%}
    try_cast({{ text }} as timestamp with time zone)
{%- endmacro %}

{% macro spark__instant_of(text) -%}
    try_cast({{ text }} as timestamp)
{%- endmacro %}


{# The UTC day of an instant. #}
{% macro utc_date(instant) -%}
    {{ return(adapter.dispatch('utc_date')(instant)) }}
{%- endmacro %}

{# A cast to a date looks up the session's time zone for each row, which takes ten times as long. #}
{% macro default__utc_date(instant) -%}
    cast(make_timestamp(epoch_us({{ instant }})) as date)
{%- endmacro %}

{% macro spark__utc_date(instant) -%}
    cast({{ instant }} as date)
{%- endmacro %}


{# A row per member of a JSON object: `member` and `member_value` as text; for a select list. #}
{% macro json_entries(column) -%}
    {{ return(adapter.dispatch('json_entries')(column)) }}
{%- endmacro %}

{% macro default__json_entries(column) -%}
    unnest(json_keys({{ column }})) as member,
    json_extract_string({{ column }}, concat('$."', unnest(json_keys({{ column }})), '"')) as member_value
{%- endmacro %}

{% macro spark__json_entries(column) -%}
    explode(from_json({{ column }}, 'map<string,string>')) as (member, member_value)
{%- endmacro %}


{# The two parts of `[{updates}, [removals]]`: an object as JSON, and an array of texts; null or
   empty if a change has another shape. #}
{% macro diff_updates(column) -%}
    {{ return(adapter.dispatch('diff_updates')(column)) }}
{%- endmacro %}

{% macro default__diff_updates(column) -%}
    case when json_type({{ column }}, '$[0]') = 'OBJECT' then json_extract({{ column }}, '$[0]') end
{%- endmacro %}

{% macro spark__diff_updates(column) -%}
    get_json_object({{ column }}, '$[0]')
{%- endmacro %}

{% macro diff_removals(column) -%}
    {{ return(adapter.dispatch('diff_removals')(column)) }}
{%- endmacro %}

{% macro default__diff_removals(column) -%}
    cast(json_extract({{ column }}, '$[1][*]') as varchar[])
{%- endmacro %}

{% macro spark__diff_removals(column) -%}
    from_json(get_json_object({{ column }}, '$[1]'), 'array<string>')
{%- endmacro %}

{# A row for each element of an array. #}
{% macro exploded(column) -%}
    {{ return(adapter.dispatch('exploded')(column)) }}
{%- endmacro %}

{% macro default__exploded(column) -%}
    unnest({{ column }})
{%- endmacro %}

{% macro spark__exploded(column) -%}
    explode({{ column }})
{%- endmacro %}


{# A row per text in a JSON list; for use in a select list. #}
{% macro json_items(column) -%}
    {{ return(adapter.dispatch('json_items')(column)) }}
{%- endmacro %}

{% macro default__json_items(column) -%}
    unnest(json_extract_string({{ column }}, '$[*]'))
{%- endmacro %}

{% macro spark__json_items(column) -%}
    explode(from_json({{ column }}, 'array<string>'))
{%- endmacro %}


{# A text without the hosts of the service's own URLs, which vary from response to response. #}
{% macro without_hosts(text) -%}
    {{ return(adapter.dispatch('without_hosts')(text)) }}
{%- endmacro %}

{% macro default__without_hosts(text) -%}
    regexp_replace({{ text }}, 'https?://[^/?#\s"]+(/api/v[23]/)', '\1', 'g')
{%- endmacro %}

{% macro spark__without_hosts(text) -%}
    regexp_replace({{ text }}, 'https?://[^/?# "]+(/api/v[23]/)', '$1')
{%- endmacro %}


{# The texts of a group joined in a given order. #}
{% macro joined_text(text, separator, order_by) -%}
    {{ return(adapter.dispatch('joined_text')(text, separator, order_by)) }}
{%- endmacro %}

{% macro default__joined_text(text, separator, order_by) -%}
    string_agg({{ text }}, '{{ separator }}' order by {{ order_by }})
{%- endmacro %}

{% macro spark__joined_text(text, separator, order_by) -%}
    array_join(transform(array_sort(collect_list(struct({{ order_by }} as place, {{ text }} as said))), x -> x.said), '{{ separator }}')
{%- endmacro %}


{# The numbers from 1 to n, as a query. #}
{% macro numbers(n) -%}
    {% for number in range(1, n + 1) %}select {{ number }} as n{{ '' if loop.last else ' union all ' }}{% endfor %}
{%- endmacro %}

{# Several columns as one value, ordered by the first column, then by the next. #}
{% macro ordered_struct(columns) -%}
    {{ return(adapter.dispatch('ordered_struct')(columns)) }}
{%- endmacro %}

{% macro default__ordered_struct(columns) -%}
    row({{ columns | join(', ') }})
{%- endmacro %}

{% macro spark__ordered_struct(columns) -%}
    struct({{ columns | join(', ') }})
{%- endmacro %}

{# Whether several columns are together in a relation that has them too; a null equals a null. #}
{% macro is_one_of(columns, relation) -%}
    {{ return(adapter.dispatch('is_one_of')(columns, relation)) }}
{%- endmacro %}

{% macro default__is_one_of(columns, relation) -%}
    row({{ columns | join(', ') }}) in (select row({{ columns | join(', ') }}) from {{ relation }})
{%- endmacro %}

{# Spark takes a struct before `in` apart, so it stands in another one. #}
{% macro spark__is_one_of(columns, relation) -%}
    struct(struct({{ columns | join(', ') }})) in (select struct({{ columns | join(', ') }}) from {{ relation }})
{%- endmacro %}

{# The number of the period of some seconds that a time lies in, counted since 1970. #}
{% macro slot_of(event, seconds) -%}
    floor({{ seconds_between(epoch_start(), event) }} / {{ seconds }})
{%- endmacro %}

{% macro epoch_start() -%}
    {{ day_start("date '1970-01-01'") }}
{%- endmacro %}

{# An instant that has not come, for comparisons. #}
{% macro never() -%}
    {{ day_start("date '9999-01-01'") }}
{%- endmacro %}

{# The last day of the same router in another relation before each day, or the first one after it. #}
{% macro nearest_day(days, day, side, others, other) -%}
    {{ return(adapter.dispatch('nearest_day')(days, day, side, others, other)) }}
{%- endmacro %}

{% macro default__nearest_day(days, day, side, others, other) -%}
    select d.router_id, o.{{ other }}
    from {{ days }} as d
    asof join {{ others }} as o on d.router_id = o.router_id and d.{{ day }} {{ side }} o.{{ other }}
{%- endmacro %}

{% macro spark__nearest_day(days, day, side, others, other) -%}
    select d.router_id, {{ 'max' if side == '>' else 'min' }}(o.{{ other }}) as {{ other }}
    from {{ days }} as d
    inner join {{ others }} as o on d.router_id = o.router_id and d.{{ day }} {{ side }} o.{{ other }}
    group by d.router_id, d.{{ day }}
{%- endmacro %}
