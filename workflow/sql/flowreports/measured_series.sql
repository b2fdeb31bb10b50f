-- One row per report that was newer than those before it: its flow of compared_flows, its time, the bytes it added, and
-- the inter-arrival time that it tells.
with

reported as (
    select * from reported_series
),

keys as (
    select * from measured_keys
),

flows as (
    select * from compared_flows
),

final as (
    select
        flows.flow,
        reported.window_ns as ts_ns,
        reported.bytes,
        reported.iat_ns
    from reported
    inner join keys on reported.flow = keys.number
    inner join flows
        on
            array_to_string(keys.vlan, '/') = flows.vlan
            and array_to_string(keys.mpls, '/') = flows.mpls
            and keys.ip_version = flows.ip_version
            and keys.src = flows.src
            and keys.dst = flows.dst
            and keys.ip_proto = flows.ip_proto
            and keys.src_port = flows.src_port
            and keys.dst_port = flows.dst_port
)

select * from final
