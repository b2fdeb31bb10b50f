-- One row: when the mirror port was busy, as its frames arrived. Time is cut into halves of a window of
-- $window_frames frames of $frame_bytes at the port's rate; a window is two successive halves, and busy if its
-- frames occupy at least $busy_share of it. Busy windows that overlap or touch are a run; a run of fill_bytes or
-- more is a busy period.
with

frames as (
    select * from frames
),

mirror as (
    select
        capacity_bps,
        overhead_bytes,
        fill_bytes,
        buffer_bytes,
        greatest(1, round($window_frames * ($frame_bytes + overhead_bytes) * 4e9 / capacity_bps))::bigint as half_ns,
        -- halves in the time in which the port sends fill_bytes
        greatest(2, ceil(fill_bytes / ($window_frames * ($frame_bytes + overhead_bytes) / 2)))::bigint as fill_halves
    from mirror
    where capacity_bps > 0
),

halves as (
    select
        f.ts_ns // m.half_ns as half,
        sum(f.wire_len + m.overhead_bytes)::bigint as half_bytes
    from frames as f
    cross join mirror as m
    where f.ts_ns is not null
    group by half
),

windows as (
    select
        h.half,
        h.half_bytes,
        m.half_ns,
        m.capacity_bps,
        m.fill_halves,
        h.half_bytes
        + case when lag(h.half) over in_order = h.half - 1 then lag(h.half_bytes) over in_order else 0 end
            as window_bytes,
        sum(h.half_bytes) over in_order as bytes_until
    from halves as h
    cross join mirror as m
    window in_order as (order by h.half)
),

-- the bytes of fill_halves halves, as a difference of two sums from the first half on
filled as (
    select
        w.half,
        (w.bytes_until - coalesce(b.bytes_until, 0)) * 8e9 / (w.fill_halves * w.half_ns) as fill_bps
    from windows as w
    asof left join windows as b on w.half - w.fill_halves >= b.half
),

marked as (
    select
        *,
        window_bytes >= $busy_share * capacity_bps * half_ns / 4e9 as busy
    from windows
),

islands as (
    select
        *,
        half - row_number() over (partition by busy order by half) as island
    from marked
),

runs as (
    select
        count(*) + 1 as halves,
        -- the first window also covers the half before it
        sum(half_bytes) + min_by(window_bytes - half_bytes, half) as run_bytes,
        sum(half_bytes) - max_by(half_bytes, half) as inner_bytes,
        count(*) - 1 as inner_halves
    from islands
    where busy
    group by island
),

periods as (
    select
        (count(*) filter (where r.run_bytes >= m.fill_bytes))::bigint as busy_periods,
        coalesce(sum(r.halves) filter (where r.run_bytes >= m.fill_bytes), 0)::bigint as busy_halves,
        coalesce(max(r.run_bytes), 0)::bigint as longest_run_bytes,
        -- bytes of the longest run at the full rate: first and last half are only partly in it
        coalesce(max(r.run_bytes) filter (
            where r.inner_halves > 0
            and r.inner_bytes * 8e9 >= $full_share * m.capacity_bps * r.inner_halves * m.half_ns
        ), 0)::bigint as longest_full_bytes
    from runs as r
    cross join mirror as m
),

peaks as (
    select
        coalesce(sum(w.half_bytes), 0)::bigint as occupied_bytes,
        coalesce(max(f.fill_bps), 0) as window_peak_bps
    from windows as w
    inner join filled as f on w.half = f.half
),

final as (
    select
        p.window_peak_bps,
        p.occupied_bytes,
        d.busy_periods,
        (d.busy_halves * m.half_ns)::bigint as busy_ns,
        d.longest_run_bytes,
        d.longest_full_bytes
    from mirror as m
    cross join periods as d
    cross join peaks as p
)

select * from final
