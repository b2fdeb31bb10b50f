-- One row per flow that reports can distinguish: the values that an error-free measurement would have. RTTs are
-- assigned to the side that began the handshake.
with

packets as (
    select * from packets
),

keys as (
    select * from keys
),

handshakes as (
    select * from handshakes
),

losses as (
    select * from losses
),

acknowledged as (
    select
        key,
        acknowledged_bytes,
        min(ts_ns) as acknowledged_ns
    from acknowledgments
    group by key, acknowledged_bytes
    qualify acknowledged_bytes = max(acknowledged_bytes) over (partition by key)
),

named as (
    select
        key,
        any_value(way) as way,
        any_value(way_back) as way_back,
        any_value(vlan) as vlan,
        any_value(mpls) as mpls,
        any_value(ip_version) as ip_version,
        any_value(src) as src,
        any_value(dst) as dst,
        any_value(ip_proto) as ip_proto,
        any_value(src_port) as src_port,
        any_value(dst_port) as dst_port,
        bool_or(outside) as outside
    from keys
    group by key
),

summed as (
    select
        key,
        count(*)::ubigint as packets,
        sum(ip_len)::ubigint as bytes,
        min(ts_ns) as first_ns,
        max(ts_ns) as last_ns,
        bool_or(tcp_flags & 18 = 2) as syn,
        max_by(iat_ns, frame) as iat_ns
    from packets
    group by key
),

final as (
    select
        n.*,
        s.* exclude (key, syn),  -- noqa: RF02
        s.syn or h.way is not null as opens,
        h.rtt_syn_ns,
        h.rtt_ack_ns,
        h.handshakes,
        l.missing_bytes,
        l.distinct_bytes,
        l.retransmitted_bytes,
        a.acknowledged_bytes::ubigint as acknowledged_bytes,
        a.acknowledged_ns
    from named as n
    inner join summed as s on n.key = s.key
    left join handshakes as h on n.way = h.way
    left join losses as l on n.key = l.key
    left join acknowledged as a on n.key = a.key
)

select * from final
