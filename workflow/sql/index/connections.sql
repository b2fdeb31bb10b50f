-- One row per sample and pair of flows that are each other's peer: the view `connections`. fwd is the direction of the
-- pair's first frame (flows are numbered in order of their first frames). CTEs do not have names of tables, because
-- DuckDB 1.0.0 treats this as recursion in a view.
with

directed as (
    select * from flows
),

final as (
    select
        fwd.sample,
        fwd.site,
        fwd.port,
        fwd.ip_version,
        fwd.ip_proto,
        fwd.src,
        fwd.dst,
        fwd.src_port,
        fwd.dst_port,
        fwd.flow as fwd_flow,
        rev.flow as rev_flow,
        fwd.flow_id as fwd_flow_id,
        rev.flow_id as rev_flow_id,
        fwd.vlan as fwd_vlan,
        rev.vlan as rev_vlan,
        fwd.mpls as fwd_mpls,
        rev.mpls as rev_mpls,
        fwd.tunnels as fwd_tunnels,
        rev.tunnels as rev_tunnels,
        fwd.frames as fwd_frames,
        rev.frames as rev_frames,
        fwd.wire_bytes as fwd_wire_bytes,
        rev.wire_bytes as rev_wire_bytes,
        fwd.payload_bytes as fwd_payload_bytes,
        rev.payload_bytes as rev_payload_bytes,
        fwd.retransmitted_bytes as fwd_retransmitted_bytes,
        rev.retransmitted_bytes as rev_retransmitted_bytes,
        fwd.duplicate_acks as fwd_duplicate_acks,
        rev.duplicate_acks as rev_duplicate_acks,
        fwd.syn + rev.syn as syn,
        fwd.fin + rev.fin as fin,
        fwd.rst + rev.rst as rst,
        fwd.cut_start,
        fwd.cut_end,
        coalesce(fwd.handshake_rtt_ns, rev.handshake_rtt_ns) as handshake_rtt_ns,
        least(fwd.first_ns, rev.first_ns) as first_ns,
        greatest(fwd.last_ns, rev.last_ns) as last_ns,
        greatest(fwd.last_ns, rev.last_ns) - least(fwd.first_ns, rev.first_ns) as duration_ns,
        coalesce(fwd.app, rev.app) as app
    from directed as fwd
    inner join directed as rev
        on
            fwd.sample = rev.sample
            and fwd.peer_flow = rev.flow
            and fwd.flow = rev.peer_flow
            and fwd.flow < rev.flow
)

select * from final
