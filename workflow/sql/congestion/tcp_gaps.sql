-- One row per sample: captured payload of TCP flows, and payload in their sequence ranges that was never captured, not
-- even as a retransmission. Acknowledgments of the peer show data sent after the last captured frame. A SYN, or a step
-- that no port could have carried in the time between two frames, begins a new range.
with

frames as (
    select * from frames
),

flows as (
    select * from flows
),

samples as (
    select * from samples
),

mirror as (
    select
        sample,
        greatest(10 * coalesce(capacity_bps, 0), 2 * coalesce(port_rate_bps, 0), 1e9) / 8e9 as bytes_per_ns
    from mirror
),

-- frames that show the sequence numbers a flow has sent: its own, and its peer's
events as (
    select
        sample,
        flow,
        frame,
        ts_ns,
        payload_len,
        tcp_flags & 2 > 0 as syn,
        tcp_seq::bigint + (tcp_flags & 2) // 2 as seq,
        true as own
    from frames
    where tcp_seq is not null and (payload_len > 0 or tcp_flags & 2 > 0)
    union all
    select
        f.sample,
        w.peer_flow as flow,
        f.frame,
        f.ts_ns,
        0 as payload_len,
        false as syn,
        f.tcp_ack::bigint as seq,
        false as own
    from frames as f
    inner join flows as w on f.sample = w.sample and f.flow = w.flow
    where f.tcp_ack is not null and w.peer_flow is not null and f.tcp_flags & 6 = 0
),

steps as (
    select
        *,
        -- the difference modulo 2^32, from -2^31 to 2^31 - 1
        (seq - lag(seq) over in_flow + 6442450944) % 4294967296 - 2147483648 as step,
        ts_ns - lag(ts_ns) over in_flow as step_ns
    from events
    window in_flow as (partition by sample, flow order by frame)
),

starts as (
    select
        s.*,
        s.syn or s.step is null
        or abs(s.step) > 1048576 + greatest(coalesce(s.step_ns, 0), 0) * m.bytes_per_ns as begins
    from steps as s
    inner join mirror as m on s.sample = m.sample
),

numbered as (
    select
        sample,
        flow,
        own and payload_len > 0 as has_data,
        payload_len,
        sum(begins::int) over in_flow as stretch,
        sum(case when begins then 0 else step end) over in_flow as position
    from starts
    window in_flow as (partition by sample, flow order by frame rows unbounded preceding)
),

spans as (
    select
        sample,
        flow,
        sum(payload_len) as payload_bytes,
        greatest(0, max(position + payload_len) - min(position) filter (where has_data)) as span_bytes
    from numbered
    group by sample, flow, stretch
    having bool_or(has_data)
),

by_flow as (
    select
        sample,
        flow,
        sum(payload_bytes) as payload_bytes,
        sum(span_bytes) as span_bytes
    from spans
    group by sample, flow
),

counted as (
    select
        b.sample,
        b.flow,
        b.payload_bytes - f.retransmitted_bytes as seen_bytes,
        -- acknowledging a FIN adds one to the number after the last byte
        greatest(
            0, b.span_bytes - (f.fin > 0)::int - (b.payload_bytes - f.retransmitted_bytes)
        ) as missing_bytes
    from by_flow as b
    inner join flows as f on b.sample = f.sample and b.flow = f.flow
),

tcp as (
    select
        sample,
        sum(wire_len) filter (where tcp_seq is not null) as tcp_bytes,
        sum(wire_len) as all_bytes,
        -- wire bytes of frames with payload, per byte of payload
        sum(wire_len) filter (where tcp_seq is not null and payload_len > 0)
        / nullif(sum(payload_len) filter (where tcp_seq is not null), 0) as wire_ratio
    from frames
    group by sample
),

-- flows by decreasing share of missing payload, with cumulative bytes
ranked as (
    select
        *,
        missing_bytes / nullif(seen_bytes + missing_bytes, 0) as missing_share,
        sum(seen_bytes) over (
            partition by sample
            order by missing_bytes / nullif(seen_bytes + missing_bytes, 0) desc nulls last, flow
        ) as until_bytes
    from counted
),

-- the share reached by flows with $gap_flows_share of all bytes, so that a single small flow does not decide
reached as (
    select
        r.sample,
        max(r.missing_share) as share_cap
    from ranked as r
    inner join tcp as t on r.sample = t.sample
    where r.until_bytes * t.wire_ratio >= $gap_flows_share * t.all_bytes
    group by r.sample
),

missing as (
    select
        r.sample,
        sum(r.seen_bytes) as seen_bytes,
        sum(r.missing_bytes) as missing_bytes,
        -- in a fixed order, because sums of fractions depend on it
        sum(
            least(r.missing_bytes, r.seen_bytes * coalesce(c.share_cap, 0) / (1 - coalesce(c.share_cap, 0)))
            order by r.missing_share desc nulls last, r.flow asc
        ) as sure_bytes
    from ranked as r
    left join reached as c on r.sample = c.sample
    group by r.sample
),

final as (
    select
        s.sample,
        coalesce(m.seen_bytes, 0)::bigint as tcp_seen_bytes,
        coalesce(m.missing_bytes, 0)::bigint as tcp_missing_bytes,
        coalesce(m.sure_bytes, 0) as tcp_sure_bytes,
        coalesce(t.tcp_bytes, 0)::double as tcp_bytes,
        coalesce(t.all_bytes, 0)::double as all_bytes,
        coalesce(t.wire_ratio, 0) as tcp_wire_ratio
    from samples as s
    left join missing as m on s.sample = m.sample
    left join tcp as t on s.sample = t.sample
)

select * from final
