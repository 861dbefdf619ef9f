{# Great-circle distance in metres between two places in degrees (haversine, mean radius). #}
{% macro distance_m(lat_a, lon_a, lat_b, lon_b) -%}
    (2 * 6371008.8 * asin(least(1.0, sqrt(
        power(sin(radians({{ lat_b }} - {{ lat_a }}) / 2), 2)
        + cos(radians({{ lat_a }})) * cos(radians({{ lat_b }})) * power(sin(radians({{ lon_b }} - {{ lon_a }}) / 2), 2)
    ))))
{%- endmacro %}

{# Whether two places are too far apart for any vehicle to get from one to the other in a time. #}
{% macro too_far(lat_a, lon_a, lat_b, lon_b, in_s) -%}
    {{ distance_m(lat_a, lon_a, lat_b, lon_b) }} > {{ var('fastest_kmh') }} / 3.6 * {{ in_s }}
{%- endmacro %}

{# A grid cell, by its row and column, as text: its south-west corner in degrees. #}
{% macro cell_id(row, column, size_deg) -%}
    concat(
        cast(cast(round({{ row }} * {{ size_deg }}, 3) as decimal(9, 3)) as {{ dbt.type_string() }}),
        ' ',
        cast(cast(round({{ column }} * {{ size_deg }}, 3) as decimal(9, 3)) as {{ dbt.type_string() }})
    )
{%- endmacro %}

{# Seconds from rest to a speed over a way at an even acceleration, at most so many. #}
{% macro ramp_s(way_m, speed_kmh, at_most_s) -%}
    case when {{ speed_kmh }} >= {{ var('standing_kmh') }}
        then least(2 * 3.6 * {{ way_m }} / {{ speed_kmh }}, {{ at_most_s }}) else {{ at_most_s }} end
{%- endmacro %}
