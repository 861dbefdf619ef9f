-- A row per stream and UTC day, $days in all: how much is proven, missing between, and lost.
-- Seconds are summed over the partitions of a stream, such as its devices. `proven_pct` is the share
-- of the day that is proven, on average over the partitions that were read by then.
WITH newest AS (SELECT max(end_at) AS newest_at FROM meta.intervals),
days AS (
    SELECT listed.day, listed.day + INTERVAL 1 DAY AS day_end
    FROM newest, unnest(range(
        date_trunc('day', newest_at) - to_days($days::INT - 1), newest_at, INTERVAL 1 DAY
    )) AS listed(day)
),
spans AS (
    SELECT account_profile, endpoint, partition, min(start_at) AS first_at, max(end_at) AS last_at
    FROM meta.intervals GROUP BY ALL
),
spanned AS (
    SELECT account_profile, endpoint, day, count(*) AS partitions,
        sum(epoch(least(last_at, day_end)) - epoch(greatest(first_at, day))) AS spanned_s
    FROM spans JOIN days ON first_at < day_end AND last_at > day GROUP BY ALL
),
proven AS (
    SELECT account_profile, endpoint, day,
        sum(epoch(least(end_at, day_end)) - epoch(greatest(start_at, day))) AS proven_s
    FROM meta.intervals JOIN days ON start_at < day_end AND end_at > day GROUP BY ALL
),
lost AS (
    SELECT account_profile, endpoint, day,
        sum(epoch(least(end_at, day_end)) - epoch(greatest(start_at, day))) AS lost_s
    FROM meta.gaps JOIN days ON start_at < day_end AND end_at > day GROUP BY ALL
)
SELECT account_profile, endpoint, strftime(day, '%Y-%m-%d') AS complete_date,
    CASE
        WHEN coalesce(lost_s, 0) > 0 THEN 'lost'
        WHEN spanned_s - coalesce(proven_s, 0) >= 1 THEN 'hole'
        WHEN coalesce(proven_s, 0) >= partitions * 86400 - 1 THEN 'proven'
        ELSE 'in part'
    END AS state,
    round(least(100, 100 * coalesce(proven_s, 0) / (partitions * 86400)), 2) AS proven_pct,
    round(greatest(0, spanned_s - coalesce(proven_s, 0)), 3) AS hole_s,
    round(coalesce(lost_s, 0), 3) AS lost_s
FROM spanned
LEFT JOIN proven USING (account_profile, endpoint, day)
LEFT JOIN lost USING (account_profile, endpoint, day)
ORDER BY endpoint, account_profile, day
