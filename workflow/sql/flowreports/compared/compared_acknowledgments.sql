-- One row per report time of a TCP flow: bytes in flight and acknowledged bytes by the last report of that time, and
-- the exact ones after the flow's last packet that this report covers and the acknowledgments up to its time.
-- ambiguous: this packet is unknown (report_frames), or segments and acknowledgments of the report's time follow it,
-- and the exact values differ between these.
with

packets as (
    select * from packets
),

states as (
    select
        key,
        frame,
        ts_ns,
        struct_pack(flight_bytes, acknowledged_bytes) as known
    from acknowledgments
),

frames as (
    select * from report_frames
),

followed as (
    select distinct key from states
),

-- Packets of the flow, also those that change no state (RST), and acknowledgments of its reverse flow.
moments as (
    select
        packets.key,
        packets.frame,
        packets.ts_ns,
        true as own
    from packets
    inner join followed on packets.key = followed.key
    union all
    select
        states.key,
        states.frame,
        states.ts_ns,
        false as own
    from states
    anti join packets on states.key = packets.key and states.frame = packets.frame
),

events as (
    select
        moments.key,
        moments.ts_ns,
        moments.frame,
        last_value(case when moments.own then moments.frame end ignore nulls) over earlier as own_frame,
        last_value(states.known ignore nulls) over earlier as known
    from moments
    left join states on moments.key = states.key and moments.frame = states.frame
    window earlier as (partition by moments.key order by moments.frame)
),

exact as (
    select
        key,
        ts_ns,
        own_frame,
        max_by(known, frame) as known,
        count(distinct known) > 1 as varies
    from events
    group by key, ts_ns, own_frame
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

flows as (
    select * from compared_flows
    where key is not null and ip_proto = 6 and not outside
),

measured as (
    select
        series.flow,
        flows.key,
        series.ts_ns,
        max_by(struct_pack(series.bytes_in_flight, series.acknowledged_bytes), series.place) as known,
        max_by(struct_pack(frames.frame, frames.ambiguous), frames.place) as covered
    from series
    inner join flows on series.flow = flows.flow
    left join frames on series.place = frames.place
    group by series.flow, flows.key, series.ts_ns
),

final as (
    select
        measured.flow,
        measured.ts_ns,
        exact.known.flight_bytes,
        measured.known.bytes_in_flight as flight_measured_bytes,
        exact.known.acknowledged_bytes,
        measured.known.acknowledged_bytes as acknowledged_measured_bytes,
        coalesce(measured.covered.ambiguous, false)
        or coalesce(exact.ts_ns = measured.ts_ns and exact.varies, false) as ambiguous
    from measured
    asof left join exact
        on measured.key = exact.key and measured.covered.frame = exact.own_frame and measured.ts_ns >= exact.ts_ns
)

select * from final
