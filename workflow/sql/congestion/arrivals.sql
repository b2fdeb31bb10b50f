-- One row per frame with a timestamp: when the mirror port had sent it at the latest. The port sends no frame before it
-- has sent the one before. Frames whose timestamps are closer than that were stamped late, in batches: by interrupt
-- coalescing, NAPI or a poll of many frames. at_ns is the latest time that the frames behind allow; late_ns is the
-- difference from the timestamp. Without a known capacity, the timestamp itself.
with

frames as (
    select * from frames
),

mirror as (
    select * from mirror
),

sent as (
    select
        f.frame,
        f.flow,
        f.ts_ns,
        m.start_ns,
        f.wire_len + m.overhead_bytes as port_bytes,
        -- time of sending all frames up to this one without a pause
        coalesce(sum((f.wire_len + m.overhead_bytes) * 8e9 / m.capacity_bps) over in_order, 0) as sending_ns
    from frames as f
    cross join mirror as m
    where f.ts_ns is not null
    window in_order as (order by f.ts_ns, f.frame rows unbounded preceding)
),

idle as (
    select
        *,
        ts_ns - start_ns - sending_ns as idle_ns
    from sent
),

final as (
    select
        frame,
        flow,
        port_bytes,
        ts_ns - greatest(0, idle_ns - min(idle_ns) over behind)::bigint as at_ns,
        greatest(0, idle_ns - min(idle_ns) over behind)::bigint as late_ns
    from idle
    window behind as (order by ts_ns, frame rows between current row and unbounded following)
)

select * from final
