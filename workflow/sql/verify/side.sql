-- One row per frame of a digest: the compared values, with the tokens of its protocols by layer. VLAN ids, MPLS labels
-- and tunnels are those of the flow; for frames without a flow they are those of `tags`, and null if the digest uses
-- tshark's result or the header is incomplete. `pw_dst`: the address at the start of the frame in the first pseudowire
-- without control word. `fcs_len`: bytes of FCS that lengths of this digest include and those of the other do not.
with

frames as (
    select * from read_parquet($frames)
),

flows as (
    select * from read_parquet($flows)
),

tags as (
    select * from read_parquet($tags)
),

tokens as (
    select * from tokens
),

decoded as (
    select
        f.*,
        f.flow is not null as has_flow,
        if(f.wire_len >= $fcs_len, $fcs_len, 0)::uinteger as fcs_len,
        $every_frame or (f.l4_by = 'native' and f.issue is distinct from 'truncated_vlan') as has_tags,
        len(list_filter(string_split(split_part(f.protocols::varchar, ':pwethnocw', 1), ':'), lambda x: x = 'eth'))
            as eth_before
    from frames as f
),

final as (
    select
        f.frame,
        f.l4_by::varchar as l4_by,
        f.app_by::varchar as app_by,
        f.ts_ns,
        f.wire_len - f.fcs_len as wire_len,
        least(f.cap_len, f.wire_len - f.fcs_len) as cap_len,
        f.protocols::varchar as protocols,
        f.stack::varchar as stack,
        t.link,
        t.network,
        t.transport,
        t.above,
        w.ip_version,
        w.src,
        w.dst,
        w.ip_proto,
        w.src_port,
        w.dst_port,
        case when f.has_flow then w.vlan when f.has_tags then g.vlan end as vlan,
        case when f.has_flow then w.mpls when f.has_tags then g.mpls end as mpls,
        case when f.has_flow then w.tunnels when f.has_tags then g.tunnels end as tunnels,
        string_split(g.eth_dst, ',')[f.eth_before + 1] as pw_dst,
        f.tcp_flags,
        f.tcp_seq,
        f.tcp_ack
    from decoded as f
    inner join tokens as t on f.protocols::varchar = t.protocols
    left join flows as w on f.flow = w.flow
    left join tags as g on f.frame = g.frame
)

select * from final
