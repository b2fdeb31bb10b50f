-- One row per report with an inter-arrival time: this time, and the exact one before the last packet that the report
-- covers. ambiguous: this packet is unknown, or known only by the reported inter-arrival time (report_frames). early:
-- further packets of the flow have the report's time.
with

packets as (
    select
        frame,
        iat_ns
    from packets
),

frames as (
    select * from report_frames
),

measured as (
    select * from measured_iats
),

flows as (
    select * from compared_flows
),

final as (
    select
        measured.flow,
        measured.place,
        measured.ts_ns,
        packets.iat_ns,
        measured.iat_ns as iat_measured_ns,
        coalesce(frames.ambiguous or frames.by_iat, false) as ambiguous,
        coalesce(frames.early, false) as early
    from measured
    inner join flows on measured.flow = flows.flow
    left join frames on measured.place = frames.place
    left join packets on frames.frame = packets.frame
    where flows.key is not null and flows.ip_proto not in (1, 58)
)

select * from final
