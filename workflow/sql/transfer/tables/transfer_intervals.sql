-- One row per interval of a stream, with times after the start of the first process of the run.
with

intervals as (
    select * from raw_intervals
),

flows as (
    select * from transfer_flows
),

final as (
    select
        i.cell_id,
        i.run,
        i.flow,
        i.stream,
        i.place,
        flows.offset_ns + i.start_ns as start_ns,
        flows.offset_ns + i.end_ns as end_ns,
        i.bytes,
        (8000000000 * i.bytes::hugeint // nullif(i.end_ns - i.start_ns, 0))::bigint as throughput_bps,
        i.retransmits,
        i.cwnd_bytes,
        i.rtt_ns,
        i.omitted
    from intervals as i
    inner join flows
        on i.cell_id = flows.cell_id and i.run = flows.run and i.flow = flows.flow and i.stream = flows.stream
)

select * from final
