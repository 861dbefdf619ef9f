-- Grain: one row per battery with readings on enough days and falling health.
-- Kind: view.

-- Least squares of health over time, one point a day. The reading first shows 62 when the line
-- through the readings passes 62.5, whichever way the gauge rounds. The interval is Fieller's:
-- the times at which the line does not differ significantly from that level.
--
-- Health is an integer. A fit to a line rounded to integers (variance 1/12), over s steps in n
-- days, has an error of 0.447 / (s n) points a day, as its Fourier series shows. That is the error
-- of a fit to independent points with n / 5s^2 times that variance. Scatter beyond rounding is
-- assumed to be equal along each step, so a step counts as two points.
with points as (
    select
        battery_id,
        health_pct,
        min(last_reported_at) over (partition by battery_id) as first_at,
        {{ seconds_between(
            'min(last_reported_at) over (partition by battery_id)', 'last_reported_at'
        ) }} / 86400 as day_number
    from {{ ref('battery_daily') }}
    where health_pct is not null
),

lines as (
    select
        battery_id,
        first_at,
        count(*) as trend_days,
        avg(day_number) as mean_day,
        avg(health_pct) as mean_health,
        regr_slope(health_pct, day_number) as slope,
        regr_r2(health_pct, day_number) as r2,
        regr_sxx(health_pct, day_number) as sxx,
        max(health_pct) - min(health_pct) as steps,
        (regr_syy(health_pct, day_number) - regr_slope(health_pct, day_number) * regr_sxy(health_pct, day_number))
            / (count(*) - 2) as scatter
    from points
    group by battery_id, first_at
    having count(*) >= {{ var('battery_trend_days') }} and regr_slope(health_pct, day_number) < 0
),

noisy as (
    select
        *,
        greatest(trend_days / (5e0 * steps * steps), 1) / 12
            + greatest(scatter - 1e0 / 12, 0) * trend_days / least(trend_days, 2e0 * (steps + 1)) as variance
    from lines
),

crossings as (
    select
        *,
        ({{ var('battery_worn_pct') }} + 0.5 - mean_health) / slope as days_ahead,
        power({{ var('battery_trend_z') }}, 2) * variance as spread,
        power({{ var('battery_trend_z') }}, 2) * variance / sxx / power(slope, 2) as doubt
    from noisy
)

select
    battery_id,
    first_at,
    trend_days,
    slope,
    r2,
    sqrt(variance / sxx) * {{ var('battery_trend_z') }} as slope_margin,
    doubt < 1 and abs(mean_day + days_ahead) < 36525 as is_certain,
    mean_day + days_ahead as worn_day,
    case when doubt < 1 then mean_day + days_ahead / (1 - doubt) end as middle_day,
    case when doubt < 1 then
        sqrt(spread * ((1 - doubt) / trend_days + power(days_ahead, 2) / sxx)) / abs(slope) / (1 - doubt)
    end as margin_days
from crossings
