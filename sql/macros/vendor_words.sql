{# The contract's name of an alert type, or of a type of object, that the vendor may name otherwise.
   The variable `vendor_words` comes from the setting of this name; without it, names stay as sent.
   src/fleetlake/settings/vendor_words.py says why they are translated here. #}
{% macro neutral_word(name) -%}
    {%- set words = var('vendor_words', {}) -%}
    {%- set prefix = words.get('alternate', 'alt_') -%}
    {%- if prefix == 'alt_' and not words.get('types') -%}
    {{ name }}
    {%- else -%}
    case
        {% for given in [prefix, 'alt_'] | unique %}
        when substr({{ name }}, 1, {{ given | length }}) = '{{ given }}'
            then concat('alt_', {{ plain_neutral_word("substr(" ~ name ~ ", " ~ (given | length + 1) ~ ")") }})
        {% endfor %}
        else {{ plain_neutral_word(name) }}
    end
    {%- endif -%}
{%- endmacro %}

{# The same, of a name without the prefix of the alternate platform. #}
{% macro plain_neutral_word(name) -%}
    {%- set types = var('vendor_words', {}).get('types', {}) -%}
    {%- if types -%}
    case {{ name }}
        {% for theirs, ours in types.items() %}when '{{ theirs }}' then '{{ ours }}'
        {% endfor %}else {{ name }}
    end
    {%- else -%}
    {{ name }}
    {%- endif -%}
{%- endmacro %}
