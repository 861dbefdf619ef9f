{# The named places that points lie in: a row per key and place, the smallest place first
   (`narrowness` 1). A point lies in a polygon if a line from it to the east crosses an odd number
   of edges. Points are joined by their band of latitude first, so that each meets few places. #}
{% macro in_places(relation, keys, latitude, longitude) -%}
    {%- set east = 'r.' ~ longitude ~ ' - p.west_deg' -%}
    {%- set east = '(' ~ east ~ ' - 360e0 * floor((' ~ east ~ ') / 360e0))' -%}
    select
        {{ keys | join(', ') }},
        place_name,
        nullif(working_days, 'None') as working_days,  -- dbt's Spark adapter loads an empty cell of a seed so
        working_from_hour,
        working_until_hour,
        row_number() over (partition by {{ keys | join(', ') }} order by area_m2, place_name) as narrowness
    from (
        select
            {% for key in keys %}r.{{ key }}, {% endfor %}
            p.place_name,
            p.area_m2,
            p.radius_m,
            {% for column in ['working_days', 'working_from_hour', 'working_until_hour'] %}
            max(p.{{ column }}) as {{ column }},
            {% endfor %}
            max({{ distance_m('p.latitude_deg', 'p.longitude_deg', 'r.' ~ latitude, 'r.' ~ longitude) }}) as away_m,
            count(e.place_name) as crossings
        from {{ relation }} as r
        inner join {{ ref('places') }} as p
            on cast(floor(r.{{ latitude }} * 10) as bigint) = p.band
            and r.{{ latitude }} >= p.south_deg
            and r.{{ latitude }} <= p.north_deg
            and {{ east }} <= p.width_deg
        left join {{ ref('place_edges') }} as e
            on p.place_name = e.place_name
            and (e.from_latitude_deg > r.{{ latitude }}) <> (e.to_latitude_deg > r.{{ latitude }})
            and {{ east }} < e.from_east_deg + (e.to_east_deg - e.from_east_deg)
                * (r.{{ latitude }} - e.from_latitude_deg) / nullif(e.to_latitude_deg - e.from_latitude_deg, 0)
        group by {% for key in keys %}r.{{ key }}, {% endfor %} p.place_name, p.area_m2, p.radius_m
    ) as near
    where case when radius_m is not null then away_m <= radius_m else mod(crossings, 2) = 1 end
{%- endmacro %}
