-- One row per frame of a digest: what is compared of it, with the tokens of its protocols by layer.
with

frames as (
    select * from read_parquet($frames)
),

flows as (
    select * from read_parquet($flows)
),

tokens as (
    select * from tokens
),

final as (
    select
        f.frame,
        f.l4_by::varchar as l4_by,
        f.app_by::varchar as app_by,
        f.ts_ns,
        f.wire_len,
        f.cap_len,
        f.protocols::varchar as protocols,
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
        w.vlan,
        w.mpls,
        f.tcp_flags,
        f.tcp_seq,
        f.tcp_ack
    from frames as f
    inner join tokens as t on f.protocols::varchar = t.protocols
    left join flows as w on f.flow = w.flow
)

select * from final
