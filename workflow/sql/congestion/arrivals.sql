-- One row per frame with a timestamp: the latest time at which the mirror port can have sent it. The port sends frames
-- one after the other. Frames whose timestamps are closer together than the port can send them were timestamped late,
-- in batches: by interrupt coalescing, NAPI, or polling. at_ns is the latest time that the following frames allow;
-- late_ns is its difference from the timestamp. If the capacity is unknown, at_ns is the timestamp.
with

frames as (
    select * from frames
),

mirror as (
    select * from mirror
),

sent as (
    select
        f.sample,
        f.frame,
        f.flow,
        f.ts_ns,
        m.start_ns,
        f.wire_len + m.overhead_bytes as port_bytes,
        -- time to send all frames up to this one without a pause
        coalesce(sum(f.wire_len + m.overhead_bytes) over in_order * 8e9 / m.capacity_bps, 0) as sending_ns
    from frames as f
    inner join mirror as m on f.sample = m.sample
    where f.ts_ns is not null
    window in_order as (partition by f.sample order by f.ts_ns, f.frame rows unbounded preceding)
),

idle as (
    select
        *,
        ts_ns - start_ns - sending_ns as idle_ns
    from sent
),

final as (
    select
        sample,
        frame,
        flow,
        port_bytes,
        ts_ns - greatest(0, idle_ns - min(idle_ns) over behind)::bigint as at_ns,
        greatest(0, idle_ns - min(idle_ns) over behind)::bigint as late_ns
    from idle
    window behind as (
        partition by sample order by ts_ns, frame rows between current row and unbounded following
    )
)

select * from final
