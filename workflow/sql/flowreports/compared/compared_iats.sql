-- One row per report with an inter-arrival time: this time, and the exact one of the flow's last packet at that time.
with

packets as (
    select
        key,
        ts_ns,
        max_by(iat_ns, frame) as iat_ns
    from packets
    group by key, ts_ns
),

measured as (
    select * from measured_iats
),

flows as (
    select * from compared_flows
),

placed as (
    select
        measured.flow,
        flows.key,
        measured.ts_ns,
        measured.iat_ns
    from measured
    inner join flows on measured.flow = flows.flow
    where flows.key is not null and flows.ip_proto not in (1, 58)
),

final as (
    select
        placed.flow,
        placed.ts_ns,
        packets.iat_ns,
        placed.iat_ns as iat_measured_ns
    from placed
    asof left join packets on placed.key = packets.key and placed.ts_ns >= packets.ts_ns
)

select * from final
