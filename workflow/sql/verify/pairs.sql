-- One row per frame on which the two digests disagree, or that only one of them has. `decided`: true if the core,
-- tshark or the flow identified the protocols above layer 4.
with

ours as (
    select * from ours
),

theirs as (
    select * from theirs
),

final as (
    select
        coalesce(o.frame, t.frame) as frame,
        o.frame is not null and t.frame is not null as both_have,
        o.l4_by = 'native' as native,
        o.app_by is not null as decided,
        o.* exclude (frame, l4_by, app_by),  -- noqa: RF02
        -- a negative time is implausible; if only tshark's is negative, this is an erratum of tshark
        if(o.ts_ns is null and t.ts_ns < 0, null, t.ts_ns) as tshark_ts_ns,
        t.wire_len as tshark_wire_len,
        t.cap_len as tshark_cap_len,
        t.protocols as tshark_protocols,
        t.link as tshark_link,
        t.network as tshark_network,
        t.transport as tshark_transport,
        t.above as tshark_above,
        t.ip_version as tshark_ip_version,
        t.src as tshark_src,
        t.dst as tshark_dst,
        t.ip_proto as tshark_ip_proto,
        t.src_port as tshark_src_port,
        t.dst_port as tshark_dst_port,
        t.vlan as tshark_vlan,
        t.mpls as tshark_mpls,
        t.tunnels as tshark_tunnels,
        t.pw_dst as tshark_pw_dst,
        t.tcp_flags as tshark_tcp_flags,
        t.tcp_seq as tshark_tcp_seq,
        t.tcp_ack as tshark_tcp_ack
    from ours as o
    full outer join theirs as t on o.frame = t.frame
    where
        row(
            o.ts_ns, o.wire_len, o.cap_len, o.link, o.network, o.transport, o.ip_version, o.src, o.dst, o.ip_proto,
            o.src_port, o.dst_port, o.vlan, o.mpls, o.tunnels, o.tcp_flags, o.tcp_seq, o.tcp_ack
        )
        is distinct from
        row(
            t.ts_ns, t.wire_len, t.cap_len, t.link, t.network, t.transport, t.ip_version, t.src, t.dst, t.ip_proto,
            t.src_port, t.dst_port, t.vlan, t.mpls, t.tunnels, t.tcp_flags, t.tcp_seq, t.tcp_ack
        )
        or (o.app_by is not null and o.protocols is distinct from t.protocols)
)

select * from final
