-- One row per flow of the collector, with the keys of the digest.
with

keys as (
    select * from measured_keys
),

reported as (
    select * from reported_flows
),

final as (
    select
        keys.vlan,
        keys.mpls,
        keys.ip_version,
        keys.src,
        keys.dst,
        keys.ip_proto,
        keys.src_port,
        keys.dst_port,
        keys.way,
        keys.way_back,
        sum(reported.packets)::ubigint as packets,
        sum(reported.bytes)::ubigint as bytes,
        any_value(reported.iat_ns) as iat_ns,
        any_value(reported.rtt_syn_ns) as rtt_syn_ns,
        any_value(reported.rtt_ack_ns) as rtt_ack_ns,
        min(reported.start_ns) as start_ns,
        max(reported.end_ns) as end_ns,
        sum(reported.payload_bytes)::ubigint as payload_bytes,
        sum(reported.retransmitted_bytes)::ubigint as retransmitted_bytes,
        sum(reported.gap_bytes)::ubigint as missing_bytes,
        sum(reported.uncertain_bytes)::ubigint as uncertain_bytes,
        sum(reported.acknowledged_bytes)::ubigint as acknowledged_bytes,
        bool_or(reported.partly_followed) as partly_followed,
        max(reported.last_ns) as reported_ns,
        sum(reported.reports)::ubigint as reports
    from reported
    inner join keys on reported.flow = keys.number
    group by
        keys.vlan,
        keys.mpls,
        keys.ip_version,
        keys.src,
        keys.dst,
        keys.ip_proto,
        keys.src_port,
        keys.dst_port,
        keys.way,
        keys.way_back
)

select * from final
