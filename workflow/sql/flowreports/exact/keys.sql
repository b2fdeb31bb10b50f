-- One row per directed flow of the digest: `key` identifies the flow by the fields that reports contain, and `way` is
-- the same without MPLS labels, which differ per direction. Reports have ports of TCP and UDP only; other flows have
-- port 0. Reports do not contain tunnel identifiers: flows that differ only in these have the same key. outside: the
-- program cannot parse the headers before the innermost network header, or its reports have no room for all tags.
with

flows as (
    select * from flows
),

named as (
    select
        flow,
        vlan,
        mpls,
        ip_version,
        src,
        dst,
        ip_proto,
        (case when ip_proto in (6, 17) then coalesce(src_port, 0) else 0 end)::usmallint as src_port,
        (case when ip_proto in (6, 17) then coalesce(dst_port, 0) else 0 end)::usmallint as dst_port,
        length(vlan) > 4
        or length(mpls) > 4
        or list_bool_or(
            list_transform(
                stacks,
                lambda run: regexp_replace(
                    run.stack, '^((Ethernet|VLAN|MPLS|PseudoWire|IPv4|IPv6)(/|$))+', ''
                ) similar to '(.*/)?(IPv[46]|VLAN|MPLS)(/.*)?'
            )
        ) as outside
    from flows
),

final as (
    select
        *,
        dense_rank() over (order by vlan, mpls, ip_version, src, dst, ip_proto, src_port, dst_port) as key,
        hash(vlan::varchar, ip_version, src, dst, ip_proto, src_port, dst_port) as way,
        hash(vlan::varchar, ip_version, dst, src, ip_proto, dst_port, src_port) as way_back
    from named
)

select * from final
