-- One row per flow and window of time with inter-arrival times: the mean of the exact ones that end in it, and of those
-- that its reports tell.
with

packets as (
    select * from packets
),

flows as (
    select * from compared_flows
),

measured as (
    select * from measured_iats
),

sides as (
    select
        flows.flow,
        packets.ts_ns,
        packets.iat_ns,
        null as iat_measured_ns
    from packets
    inner join flows on packets.key = flows.key
    union all
    select
        flow,
        ts_ns,
        null as iat_ns,
        iat_ns as iat_measured_ns
    from measured
),

final as (
    select
        flow,
        ts_ns // $length_ns * $length_ns as window_ns,
        round(avg(iat_ns))::bigint as iat_ns,
        round(avg(iat_measured_ns))::bigint as iat_measured_ns
    from sides
    group by flow, ts_ns // $length_ns
)

select * from final
