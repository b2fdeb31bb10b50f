-- One row per report and the one before it of the same flow: the bytes that the report added, and those that the flow's
-- packets had in the time between. This is throughput as the P4/RDMA paper has it.
with

summed as (
    select
        key,
        ts_ns,
        sum(ip_len) over (partition by key order by frame) as bytes
    from packets
),

stamped as (
    select
        key,
        ts_ns,
        max(bytes) as bytes
    from summed
    group by key, ts_ns
),

series as (
    select
        flow,
        ts_ns,
        sum(bytes)::ubigint as bytes
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
        series.bytes
    from series
    inner join flows on series.flow = flows.flow
    where flows.key is not null and not flows.outside
),

told as (
    select
        placed.flow,
        placed.ts_ns,
        placed.bytes as bytes_measured,
        stamped.bytes - lag(stamped.bytes) over (partition by placed.flow order by placed.ts_ns) as bytes,
        placed.ts_ns - lag(placed.ts_ns) over (partition by placed.flow order by placed.ts_ns) as span_ns
    from placed
    asof inner join stamped on placed.key = stamped.key and placed.ts_ns >= stamped.ts_ns
),

final as (
    select
        flow,
        ts_ns,
        bytes * 8e9 / span_ns as bps,
        bytes_measured * 8e9 / span_ns as bps_measured
    from told
    where span_ns > 0
)

select * from final
