-- A data test: a query that returns the bad rows. A build that finds any changes no mart.

select *
from {{ ref('failovers_by_router') }}
where away_s < 0
