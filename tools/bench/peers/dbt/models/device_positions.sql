select regexp_extract(router, '(\d+)/$', 1)::bigint as router_id, latitude, longitude, updated_at
from raw.locations
qualify row_number() over (partition by router_id order by updated_at desc) = 1
