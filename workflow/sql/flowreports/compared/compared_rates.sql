-- One row per report time with a previous one of its flow: throughput and average packet size between the two (table II
-- of the P4/RDMA paper), by the bytes and packets that the reports of that time added, and by the flow's packets
-- between the last ones that these reports cover. ambiguous: one of these packets is unknown (report_frames), so there
-- are no exact values.
with

summed as (
    select
        frame,
        sum(ip_len) over (partition by key order by frame) as bytes,
        row_number() over (partition by key order by frame) as packets
    from packets
),

frames as (
    select * from report_frames
),

series as (
    select * from measured_series
),

flows as (
    select * from compared_flows
    where not outside
),

placed as (
    select
        series.flow,
        series.ts_ns,
        sum(series.bytes)::ubigint as bytes,
        sum(series.packets)::ubigint as packets,
        max_by(struct_pack(frames.frame, frames.ambiguous), series.place) as covered
    from series
    inner join flows on series.flow = flows.flow
    inner join frames on series.place = frames.place
    group by series.flow, series.ts_ns
),

spans as (
    select
        placed.flow,
        placed.ts_ns,
        placed.bytes as bytes_measured,
        placed.packets as packets_measured,
        summed.bytes - lag(summed.bytes) over reports as bytes,
        summed.packets - lag(summed.packets) over reports as packets,
        placed.ts_ns - lag(placed.ts_ns) over reports as span_ns,
        placed.covered.ambiguous or lag(placed.covered.ambiguous) over reports as ambiguous
    from placed
    left join summed on placed.covered.frame = summed.frame
    window reports as (partition by placed.flow order by placed.ts_ns)
),

final as (
    select
        flow,
        ts_ns,
        bytes * 8e9 / span_ns as bps,
        bytes_measured * 8e9 / span_ns as bps_measured,
        case when packets > 0 then bytes / packets end as packet_size,
        case when packets_measured > 0 then bytes_measured / packets_measured end as packet_size_measured,
        ambiguous
    from spans
    where span_ns > 0
)

select * from final
