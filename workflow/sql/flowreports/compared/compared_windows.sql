-- One row per flow and time window in which the digest or the collector counts bytes: both counts, 0 if there are none.
with

exact as (
    select * from exact_windows
),

measured as (
    select * from measured_windows
),

flows as (
    select * from compared_flows
),

sides as (
    select
        flows.flow,
        exact.window_ns,
        exact.bytes,
        0 as bytes_measured
    from exact
    inner join flows on exact.key = flows.key
    union all
    select
        flow,
        window_ns,
        0 as bytes,
        bytes as bytes_measured
    from measured
),

final as (
    select
        $of_sample as sample,
        flow,
        window_ns,
        sum(bytes)::ubigint as bytes,
        sum(bytes_measured)::ubigint as bytes_measured
    from sides
    group by flow, window_ns
)

select * from final
