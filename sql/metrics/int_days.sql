-- Grain: one row per UTC day that the lake has data for.
-- Kind: view.

-- dbt's semantic layer asks for a calendar (`time_spine`).
{{ config(schema='intermediate', materialized='view') }}

select {{ explode_days('cast(known_from as date)', 'cast(known_until as date)') }} as day_date
from {{ ref('int_as_of') }}
where known_from is not null
