-- One row per report with a previous report of its flow: throughput and average packet size between the two (table II
-- of the P4/RDMA paper), by the bytes and packets that the report added, and by the flow's packets in that time.
with

summed as (
    select
        key,
        ts_ns,
        sum(ip_len) over (partition by key order by frame) as bytes,
        row_number() over (partition by key order by frame) as packets
    from packets
),

stamped as (
    select
        key,
        ts_ns,
        max(bytes) as bytes,
        max(packets) as packets
    from summed
    group by key, ts_ns
),

series as (
    select
        flow,
        ts_ns,
        sum(bytes)::ubigint as bytes,
        sum(packets)::ubigint as packets
    from measured_series
    group by flow, ts_ns
),

flows as (
    select * from compared_flows
),

placed as (
    select
        series.flow,
        flows.key,
        series.ts_ns,
        series.bytes,
        series.packets
    from series
    inner join flows on series.flow = flows.flow
    where flows.key is not null and not flows.outside
),

spans as (
    select
        placed.flow,
        placed.ts_ns,
        placed.bytes as bytes_measured,
        placed.packets as packets_measured,
        stamped.bytes - lag(stamped.bytes) over reports as bytes,
        stamped.packets - lag(stamped.packets) over reports as packets,
        placed.ts_ns - lag(placed.ts_ns) over reports as span_ns
    from placed
    asof inner join stamped on placed.key = stamped.key and placed.ts_ns >= stamped.ts_ns
    window reports as (partition by placed.flow order by placed.ts_ns)
),

final as (
    select
        flow,
        ts_ns,
        bytes * 8e9 / span_ns as bps,
        bytes_measured * 8e9 / span_ns as bps_measured,
        case when packets > 0 then bytes / packets end as packet_size,
        case when packets_measured > 0 then bytes_measured / packets_measured end as packet_size_measured
    from spans
    where span_ns > 0
)

select * from final
