-- One row per flow of the collector: its key as in `keys`, and its number in the collector. Flows that differ only in
-- ICMP types and identifiers have the same key.
with

reported as (
    select * from reported_flows
),

named as (
    select
        flow as number,
        vlan,
        mpls,
        ip_version,
        src,
        dst,
        ip_proto,
        (case when ip_proto in (6, 17) then coalesce(src_port, 0) else 0 end)::usmallint as src_port,
        (case when ip_proto in (6, 17) then coalesce(dst_port, 0) else 0 end)::usmallint as dst_port
    from reported
),

final as (
    select
        *,
        hash(vlan::varchar, ip_version, src, dst, ip_proto, src_port, dst_port) as way,
        hash(vlan::varchar, ip_version, dst, src, ip_proto, dst_port, src_port) as way_back
    from named
)

select * from final
