select created_at::date as day, type, count(*) as alerts
from raw.alerts
group by all
