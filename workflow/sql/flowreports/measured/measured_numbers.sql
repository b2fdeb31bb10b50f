-- One row per flow of the collector that is in compared_flows: its number in the collector, and in compared_flows.
with

keys as (
    select * from measured_keys
),

flows as (
    select * from compared_flows
),

final as (
    select
        keys.number,
        flows.flow
    from keys
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
