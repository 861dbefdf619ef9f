select
    r.id as router_id, r.name, r.device_type, r.full_product_name, r.serial_number, r.mac,
    r.ipv4_address, r.state, r.group_id, r.account_id, r.asset_id, r.description
from raw.{routers} r
where r.valid_to is null and (
    r.id::varchar = $text
    or lower($text) in (lower(r.serial_number), lower(r.mac), r.ipv4_address)
    or r.id in (select id from raw.{routers} where contains(lower(name), lower($text)))
    or r.id in (
        select router_id from raw.{lines}
        where list_contains(
            [lower(x::varchar) for x in [mac, serial, imei, iccid, hostname]], lower($text)
        )
    )
)
order by r.name, r.id
