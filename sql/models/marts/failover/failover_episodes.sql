-- Grain: one row per failover episode: a router away from its preferred WAN.
-- Kind: table.

{% set account_id = 'coalesce(e.record_account_id, belonged.account_id)' %}
{% set group_id = 'case when e.record_account_id is not null then e.record_group_id else belonged.group_id end' %}

with bytes as (
    select episode_id, {{ whole_sum('backup_bytes') }} as sampled_bytes
    from {{ ref('int_episode_usage') }}
    group by episode_id
)

select
    e.episode_id,
    e.source,
    {{ account_id }} as account_id,
    {{ group_id }} as group_id,
    e.router_id,
    e.backup_net_device_id,

    r.router_name,
    owner.account_name,
    team.group_name,
    e.from_interface,
    e.from_carrier,
    e.to_interface,
    e.to_carrier,
    c.cause_type,
    c.cause_reason,
    c.cause_description,
    e.is_open,
    e.is_end_known,
    e.is_bounded,

    e.from_priority,
    e.to_priority,
    round({{ seconds_between('e.started_at', 'e.until_at') }}, 3) as duration_s,
    coalesce({{ whole_number(byte_count('e.record_bytes')) }}, b.sampled_bytes) as backup_bytes,
    b.sampled_bytes,
    e.data_cap_pct,
    round(
        coalesce({{ byte_count('e.record_bytes') }}, b.sampled_bytes) / 1e9 * coalesce(p.price_per_gb, other.price_per_gb), 4
    ) as cost,
    s.signal_samples,
    s.mean_rsrp_dbm,
    s.min_rsrp_dbm,
    s.mean_sinr_db,
    s.mean_signal_pct,

    f.flap_group_id,
    f.flap_group_episodes,
    f.flap_group_episodes >= {{ var('flap_episodes') }} as is_flapping,
    f.episodes_recently,
    f.episodes_recently >= {{ var('repeat_episodes') }} as is_repeat_offender,

    {{ local_columns('e.started_at', 'z.time_zone', 'h') }},
    c.cause_at,
    e.started_at,
    e.ended_at,
    case when e.is_unsure then e.ended_at end as unknown_since_at

from {{ ref('int_episodes') }} as e
inner join {{ ref('int_flapping') }} as f on e.episode_id = f.episode_id
left join {{ ref('int_routers') }} as r on e.router_id = r.router_id
left join {{ ref('int_router_spans') }} as belonged
    on e.router_id = belonged.router_id
    and {{ holds_at('belonged', 'e.started_at') }}
left join {{ present_names(ref('stg_accounts'), 'account') }} as owner on {{ account_id }} = owner.account_id
left join {{ present_names(ref('stg_groups'), 'group') }} as team on {{ group_id }} = team.group_id
left join {{ ref('int_episode_cause') }} as c on e.episode_id = c.episode_id
left join {{ ref('int_episode_signal') }} as s on e.episode_id = s.episode_id
left join {{ ref('int_router_zones') }} as z on e.router_id = z.router_id
left join {{ ref('int_router_hours') }} as h on e.router_id = h.router_id
left join bytes as b on e.episode_id = b.episode_id
left join {{ ref('carrier_plans') }} as p on e.to_carrier = p.carrier
left join {{ ref('carrier_plans') }} as other on other.carrier = '*'
