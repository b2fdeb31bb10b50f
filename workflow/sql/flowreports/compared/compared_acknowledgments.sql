-- One row per report time of a TCP flow: bytes in flight and acknowledged bytes by the last report of that time, and
-- the exact ones after the flow's last packet up to then.
with

exact as (
    select
        key,
        ts_ns,
        max_by(struct_pack(flight_bytes, acknowledged_bytes), frame) as known
    from acknowledgments
    group by key, ts_ns
),

series as (
    select
        flow,
        ts_ns,
        place,
        bytes_in_flight,
        sum(acknowledged_bytes) over (partition by flow order by place)::bigint as acknowledged_bytes
    from measured_series
),

measured as (
    select
        flow,
        ts_ns,
        max_by(struct_pack(bytes_in_flight, acknowledged_bytes), place) as known
    from series
    group by flow, ts_ns
),

flows as (
    select * from compared_flows
    where key is not null and ip_proto = 6 and not outside
),

placed as (
    select
        measured.flow,
        flows.key,
        measured.ts_ns,
        measured.known
    from measured
    inner join flows on measured.flow = flows.flow
),

final as (
    select
        placed.flow,
        placed.ts_ns,
        exact.known.flight_bytes,
        placed.known.bytes_in_flight as flight_measured_bytes,
        exact.known.acknowledged_bytes,
        placed.known.acknowledged_bytes as acknowledged_measured_bytes
    from placed
    asof left join exact on placed.key = exact.key and placed.ts_ns >= exact.ts_ns
)

select * from final
