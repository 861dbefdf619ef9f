{# Great-circle distance in metres between two places in degrees (haversine, mean radius). #}
{% macro distance_m(lat_a, lon_a, lat_b, lon_b) -%}
    (2 * 6371008.8 * asin(least(1.0, sqrt(
        power(sin(radians({{ lat_b }} - {{ lat_a }}) / 2), 2)
        + cos(radians({{ lat_a }})) * cos(radians({{ lat_b }})) * power(sin(radians({{ lon_b }} - {{ lon_a }}) / 2), 2)
    ))))
{%- endmacro %}

{# Whether no vehicle can get from one place to the other in the given time; null without a place.
   Places as close as noise, or as two receivers of one vehicle with different clocks, are always
   within reach: two fixes in one second have no speed. A degree is at most 111,195 m: if even the sum
   of the differences in degrees is within reach, the distance is not computed. #}
{% macro too_far(lat_a, lon_a, lat_b, lon_b, in_s) -%}
    {%- set reach_m = (var('near_m') ~ ' + ' ~ var('fastest_kmh') ~ ' / 3.6 * ' ~ in_s) -%}
    (
        111200 * (abs({{ lat_b }} - {{ lat_a }}) + abs({{ lon_b }} - {{ lon_a }})) > {{ reach_m }}
        and {{ distance_m(lat_a, lon_a, lat_b, lon_b) }} > {{ reach_m }}
    )
{%- endmacro %}

{# Aggregate: the size in metres of the smallest box, in space, around legs from one place to
   another. It is the distance between the two farthest places, or somewhat more. #}
{% macro extent_m(from_lat, from_lon, to_lat, to_lon) -%}
    6371008.8 * sqrt(
        {{ spread_squared(sphere_x(from_lat, from_lon), sphere_x(to_lat, to_lon)) }}
        + {{ spread_squared(sphere_y(from_lat, from_lon), sphere_y(to_lat, to_lon)) }}
        + {{ spread_squared(sphere_z(from_lat), sphere_z(to_lat)) }}
    )
{%- endmacro %}

{% macro spread_squared(one, other) -%}
    power(max(greatest({{ one }}, {{ other }})) - min(least({{ one }}, {{ other }})), 2)
{%- endmacro %}

{# A longitude, or a difference of two, normalised to [-180, 180) degrees. #}
{% macro wrapped_deg(angle) -%}
    ({{ angle }} - 360e0 * floor(({{ angle }} + 180e0) / 360e0))
{%- endmacro %}

{# A place as a point on the unit sphere. Means and lines of such points are correct across the
   antimeridian and the poles, where those of latitudes and longitudes are not. #}
{% macro sphere_x(lat, lon) -%}
    (cos(radians({{ lat }})) * cos(radians({{ lon }})))
{%- endmacro %}

{% macro sphere_y(lat, lon) -%}
    (cos(radians({{ lat }})) * sin(radians({{ lon }})))
{%- endmacro %}

{% macro sphere_z(lat) -%}
    sin(radians({{ lat }}))
{%- endmacro %}

{# The latitude and longitude of the direction from the centre of the sphere to a point. #}
{% macro latitude_of(x, y, z) -%}
    round(degrees(atan2({{ z }}, sqrt(power({{ x }}, 2) + power({{ y }}, 2)))), 6)
{%- endmacro %}

{% macro longitude_of(x, y) -%}
    round({{ wrapped_deg('round(degrees(atan2(' ~ y ~ ', ' ~ x ~ ')), 6)') }}, 6)
{%- endmacro %}

{# The row of a grid cell: the pole itself lies in the last one. #}
{% macro cell_row(lat, size_deg) -%}
    least(cast(floor({{ lat }} / {{ size_deg }}) as int), {{ (90 / size_deg) | round(0, 'ceil') | int - 1 }})
{%- endmacro %}

{# The column of a grid cell; 180 degrees count as -180. The rows at the poles are one cell each,
   because their columns would be only metres wide. #}
{% macro cell_column(lat, lon, size_deg) -%}
    case
        when abs({{ lat }}) >= 90 - {{ size_deg }} then {{ (-180 / size_deg) | round(0) | int }}
        else cast(floor({{ wrapped_deg(lon) }} / {{ size_deg }}) as int)
    end
{%- endmacro %}

{# A grid cell, by its row and column, as text: its south-west corner in degrees. #}
{% macro cell_id(row, column, size_deg) -%}
    concat(
        cast(cast(round({{ row }} * {{ size_deg }}, 3) as decimal(9, 3)) as {{ dbt.type_string() }}),
        ' ',
        cast(cast(round({{ column }} * {{ size_deg }}, 3) as decimal(9, 3)) as {{ dbt.type_string() }})
    )
{%- endmacro %}

{# Seconds to reach a speed from rest over a distance at constant acceleration, with a maximum. #}
{% macro ramp_s(way_m, speed_kmh, at_most_s) -%}
    case when {{ speed_kmh }} >= {{ var('standing_kmh') }}
        then least(2 * 3.6 * {{ way_m }} / {{ speed_kmh }}, {{ at_most_s }}) else {{ at_most_s }} end
{%- endmacro %}

{# The place beyond b on the line from a, by a share of the distance from a to b; b if it is 0. #}
{% macro latitude_beyond(lat_a, lon_a, lat_b, lon_b, share) -%}
    case when {{ share }} > 0 then {{ latitude_of(
        beyond(sphere_x(lat_a, lon_a), sphere_x(lat_b, lon_b), share),
        beyond(sphere_y(lat_a, lon_a), sphere_y(lat_b, lon_b), share),
        beyond(sphere_z(lat_a), sphere_z(lat_b), share)
    ) }} else {{ lat_b }} end
{%- endmacro %}

{% macro longitude_beyond(lat_a, lon_a, lat_b, lon_b, share) -%}
    case when {{ share }} > 0 then {{ longitude_of(
        beyond(sphere_x(lat_a, lon_a), sphere_x(lat_b, lon_b), share),
        beyond(sphere_y(lat_a, lon_a), sphere_y(lat_b, lon_b), share)
    ) }} else {{ lon_b }} end
{%- endmacro %}

{% macro beyond(a, b, share) -%}
    ({{ b }} + ({{ b }} - {{ a }}) * {{ share }})
{%- endmacro %}

{# Whether a leg between standing and moving can be one acceleration, and is not an unrecorded drive. #}
{% macro is_one_ramp(way_m, speed_kmh, leg_s) -%}
    coalesce(
        {{ leg_s }} <= {{ var('stood_s') }} and 2 * 3.6 * {{ way_m }} < {{ var('stop_s') }} * {{ speed_kmh }}, false
    )
{%- endmacro %}

{# A value of the nearest point at least `trend_s` before (`lag`) or after (`lead`) this one. Points
   lie in different half minutes, so it is one of the next few: to look for it among all of a router
   would sort them once more. #}
{% macro trend_point(step, is_away, value) -%}
    {%- set farthest = (var('trend_s') + 29) // 30 + 1 -%}
    case
        {%- for n in range(1, farthest) %}
        when {{ step }}(at_s, {{ n }}) over track {{ is_away }} {{ var('trend_s') }} then {{ step }}({{ value }}, {{ n }}) over track
        {%- endfor %}
        else {{ step }}({{ value }}, {{ farthest }}) over track
    end
{%- endmacro %}

{# The speed at a fix by its legs: the one that leads to it and the one before that (leg, came), and
   the two that follow (after, then). The speed changes evenly from the middle of one to the middle
   of the next. Legs shorter than half a minute are too inexact, and legs longer than a stop may
   contain one. #}
{% macro paced_kmh() -%}
    {%- set is_exact = " between 15 and " ~ var('stop_s') -%}
    3.6 * case
        when leg_s {{ is_exact }} and after_s {{ is_exact }}
            then (leg_m / leg_s * after_s + after_m / after_s * leg_s) / (leg_s + after_s)
        when after_s {{ is_exact }} and then_s {{ is_exact }}
            then greatest(after_m / after_s - (then_m / then_s - after_m / after_s) * after_s / (after_s + then_s), 0)
        when leg_s {{ is_exact }} and came_s {{ is_exact }}
            then greatest(leg_m / leg_s - (came_m / came_s - leg_m / leg_s) * leg_s / (leg_s + came_s), 0)
        when after_s {{ is_exact }} then after_m / after_s
        when leg_s {{ is_exact }} then leg_m / leg_s
        else 0
    end
{%- endmacro %}
