-- One row per stream of iperf3 that is in the capture: its flow, and the flow of its acknowledgments. If several flows
-- have its ports (tagged frames beside untagged ones), it is the one with the most payload.
with

streams as (
    select * from streams
),

flows as (
    select * from flows
    where ip_proto = $tcp
),

final as (
    select
        streams.stream,
        streams.cookie_bytes,
        streams.sender_ns,
        streams.size_bytes,
        flows.flow,
        flows.peer_flow,
        flows.cut_end
    from streams
    inner join flows on streams.src_port = flows.src_port and streams.dst_port = flows.dst_port
    qualify row_number() over (partition by streams.stream order by flows.payload_bytes desc, flows.flow asc) = 1
)

select * from final
