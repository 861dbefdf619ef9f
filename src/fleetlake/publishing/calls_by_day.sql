-- A row per stream and UTC day with its calls, and those refused and tried again.
SELECT account_profile, endpoint, strftime(started_at, '%Y-%m-%d') AS call_date,
    sum(calls)::BIGINT AS calls, sum(refusals)::BIGINT AS refusals, sum(retries)::BIGINT AS retries
FROM meta.calls
WHERE started_at > (SELECT max(started_at) FROM meta.calls) - to_days($days::INT)
GROUP BY ALL ORDER BY call_date, endpoint, account_profile
