select
    regexp_extract(net_device, '(\d+)/$', 1)::bigint as net_device_id,
    created_at::date as day,
    sum(bytes_in) as bytes_in,
    sum(bytes_out) as bytes_out
from raw.net_device_usage_samples
group by all
