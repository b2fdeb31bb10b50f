-- One row per flow of the campaign: as its largest site shows it. Site, VLAN ids and MPLS labels change on the way from
-- site to site, so flows are matched by addresses, protocol and ports. Several flows of one site with the same ones are
-- different flows (slices with equal addresses): the k-th largest of a site is matched with the k-th of the others.
with

site_flows as (
    select * from site_flows
),

ranked as (
    select
        *,
        row_number() over (
            partition by site, ip_version, src, dst, ip_proto, src_port, dst_port
            order by wire_bytes desc, frames desc, flow_id asc
        ) as place
    from site_flows
),

matched as (
    select
        *,
        row_number() over (
            partition by ip_version, src, dst, ip_proto, src_port, dst_port, place
            order by wire_bytes desc, frames desc, site asc
        ) as site_place
    from ranked
),

final as (
    select
        * exclude (place, site_place, site),
        site as largest_site
    from matched
    where site_place = 1
)

select * from final
