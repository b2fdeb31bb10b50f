-- One row per flow and time window with inter-arrival times: the mean of the exact ones that end in it, the mean of the
-- samples in its reports, and the mean by packet counts (gap_measured_ns): the time between its reports and the
-- previous ones, divided by the packets that they added.
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

steps as (
    select
        flow,
        ts_ns,
        packets,
        ts_ns - lag(ts_ns) over (partition by flow order by place) as span_ns
    from measured_series
),

sides as (
    select
        flows.flow,
        packets.ts_ns,
        packets.iat_ns,
        null as iat_measured_ns,
        null as span_ns,
        null as packets
    from packets
    inner join flows on packets.key = flows.key
    union all
    select
        flow,
        ts_ns,
        null as iat_ns,
        iat_ns as iat_measured_ns,
        null as span_ns,
        null as packets
    from measured
    union all
    select
        flow,
        ts_ns,
        null as iat_ns,
        null as iat_measured_ns,
        span_ns,
        packets
    from steps
    where span_ns >= 0
),

final as (
    select
        flow,
        ts_ns // $length_ns * $length_ns as window_ns,
        round(avg(iat_ns))::bigint as iat_ns,
        round(avg(iat_measured_ns))::bigint as iat_measured_ns,
        case when sum(packets) > 0 then round(sum(span_ns) / sum(packets))::bigint end as gap_measured_ns
    from sides
    group by flow, ts_ns // $length_ns
)

select * from final
