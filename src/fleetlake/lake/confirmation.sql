-- name: unconfirmed
select * from raw.{pushed}
anti join (
    select push_id from meta.confirmations where alerted_at between $low and $high
) using (push_id)
where alerted_at between $low and $high

-- name: confirm_by_id
insert into meta.confirmations by name
select
    push_id, min(a.alert_id) as alert_id, min(p.alerted_at) as alerted_at, now() as confirmed_at
from ({unconfirmed}) as p
join (
    select {key} as alert_id, lower({key}) as push_id
    from raw.{polled} where created_at between $low and $high
) as a using (push_id)
group by push_id

-- name: alike
-- The devices and types with an unconfirmed push that a polled record may confirm.
select distinct device, type
from (
    select {device} as device, type, {at} as moment from ({unconfirmed}) where {has_no_id}
) as p
join (
    select {device} as device, type, {at} as moment
    from raw.{polled} where created_at between $low and $high
) as a using (device, type)
where abs(epoch_us(p.moment) - epoch_us(a.moment)) < 1000000

-- name: add
insert into meta.confirmations by name
select push_id, pairs.alert_id, alerted_at, now() as confirmed_at
from pairs
join raw.{pushed} using (push_id)
where alerted_at between $low and $high

-- name: pushes
select push_id, c.alert_id, p.* exclude (push_id)
from (
    select push_id, {at} as moment, {device} as device, type, friendly_info, info::varchar
    from raw.{pushed} where alerted_at between $low and $high and {has_no_id}
) as p
left join (
    select push_id, alert_id from meta.confirmations where alerted_at between $low and $high
) as c using (push_id)
semi join alike using (device, type)
where moment is not null

-- name: polled
select alert_id, null, a.* exclude (alert_id)
from (
    select {key} as alert_id, {at} as moment, {device} as device, type, friendly_info, info::varchar
    from raw.{polled} where created_at between $low and $high
) as a
semi join alike using (device, type)
where lower(alert_id) not in (
    select push_id from raw.{pushed} where alerted_at between $low and $high
)
and alert_id not in (
    select alert_id from meta.confirmations
    where alert_id is not null
        and push_id in (select push_id from raw.{pushed} where {is_untimed})
)

-- name: untimed
select push_id, received_at, account_profile, {device}, type, info::varchar, friendly_info
from ({unconfirmed})
where {is_untimed}
order by received_at, push_id

-- name: polled_before
select
    a.*,
    alert_id in (select alert_id from meta.confirmations where alert_id is not null)
    or lower(alert_id) in (select push_id from raw.{pushed})
from (
    select created_at, {key} as alert_id, {device} as device, type, info::varchar, friendly_info
    from raw.{polled} where created_at between $low and $high
) as a
semi join alike using (device, type)
order by created_at, alert_id
