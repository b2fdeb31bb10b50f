-- One row per flow of the campaign, as observed at its largest site. Site, VLAN ids, MPLS labels and tunnels change
-- between sites, so flows are matched by addresses, protocol, ports and network: the tunnel identifiers that both
-- directions share ($networks: types of tunnels), if there are any. A flow without such an identifier can match one
-- with identifiers if all flows with its addresses that have identifiers have the same ones, and no site has flows with
-- and without them. Several flows of one site and network are different flows (slices with the same addresses): the
-- k-th largest of a site is matched with the k-th of the others.
with

site_flows as (
    select * from site_flows
),

-- Only flows whose addresses and ports are those of another one are matched.
repeated as (
    select
        ip_version,
        src,
        dst,
        ip_proto,
        src_port,
        dst_port
    from site_flows
    group by all
    having count(*) > 1
),

marked as (
    select
        f.*,
        r.src is not null as matches
    from site_flows as f
    left join repeated as r
        on
            f.ip_version = r.ip_version
            and f.src = r.src
            and f.dst = r.dst
            and f.ip_proto = r.ip_proto
            and f.src_port is not distinct from r.src_port
            and f.dst_port is not distinct from r.dst_port
),

-- noqa: disable=RF02
identified as (
    select
        *,
        nullif(
            array_to_string(
                list_transform(
                    list_filter(
                        string_split(tunnels, '/'), lambda t: list_contains($networks, split_part(t, '*', 1))
                    ),
                    lambda t: split_part(t, '*', 1) || '*' || split_part(t, '*', 2)
                ),
                '/'
            ),
            ''
        ) as network
    from marked
    where matches
),
-- noqa: enable=RF02

site_networks as (
    select
        site,
        ip_version,
        src,
        dst,
        ip_proto,
        src_port,
        dst_port,
        min(network) as first_network,
        max(network) as last_network,
        count(network) < count(*) as has_others
    from identified
    group by all
    having count(network) > 0
),

common_networks as (
    select
        ip_version,
        src,
        dst,
        ip_proto,
        src_port,
        dst_port,
        min(first_network) as network
    from site_networks
    group by all
    having min(first_network) = max(last_network) and not bool_or(has_others)
),

networked as (
    select
        i.* exclude (network),
        coalesce(i.network, o.network) as network
    from identified as i
    left join common_networks as o
        on
            i.network is null
            and i.ip_version = o.ip_version
            and i.src = o.src
            and i.dst = o.dst
            and i.ip_proto = o.ip_proto
            and i.src_port is not distinct from o.src_port
            and i.dst_port is not distinct from o.dst_port
),

ranked as (
    select
        *,
        row_number() over (
            partition by site, ip_version, src, dst, ip_proto, src_port, dst_port, network
            order by wire_bytes desc, frames desc, flow_id asc
        ) as place
    from networked
),

matched as (
    select
        *,
        row_number() over (
            partition by ip_version, src, dst, ip_proto, src_port, dst_port, network, place
            order by wire_bytes desc, frames desc, site asc
        ) as site_place
    from ranked
),

final as (
    select
        * exclude (place, site_place, site, network, matches),
        site as largest_site
    from matched
    where site_place = 1
    union all by name
    select
        * exclude (site, matches),
        site as largest_site
    from marked
    where not matches
)

select * from final
