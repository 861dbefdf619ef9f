select
    regexp_extract(net_device, '(\d+)/$', 1)::bigint as net_device_id,
    created_at::date as day,
    avg(dbm) as mean_dbm,
    min(dbm) as least_dbm
from raw.net_device_signal_samples
group by all
