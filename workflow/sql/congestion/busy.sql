-- One row: how busy the mirror port was, by the arrival of its frames; no row if its capacity is unknown. The content
-- of a full queue is sent back to back: fill_bytes in their time at the port's rate, timestamped at most late_ns late.
-- This time is divided into 32 cells, rounded up, with one more for its start. If no such time has fill_bytes, or if no
-- stretch of frames can have left as many waiting, the queue was never full, independent of the windows.
with

arrivals as (
    select * from arrivals
),

windows as (
    select * from windows
),

runs as (
    select * from runs
),

waiting as (
    select max(waiting_bytes) as waiting_bytes
    from stretches
),

lateness as (
    select coalesce(max(late_ns), 0) as late_ns
    from arrivals
),

mirror as (
    select
        m.*,
        l.late_ns,
        greatest(1, m.fill_bytes * 0.25e9 / m.capacity_bps)::bigint as cell_ns,
        ceil(32 + l.late_ns / greatest(1, m.fill_bytes * 0.25e9 / m.capacity_bps))::bigint + 1 as fill_cells
    from mirror as m
    cross join lateness as l
    where m.capacity_bps > 0
),

cells as (
    select
        a.at_ns // m.cell_ns as cell,
        sum(a.port_bytes) as cell_bytes
    from arrivals as a
    cross join mirror as m
    group by cell
),

sums as (
    select
        *,
        sum(cell_bytes) over (order by cell rows unbounded preceding) as bytes_until
    from cells
),

-- the bytes of fill_cells cells, as the difference of two cumulative sums
fillings as (
    select max(s.bytes_until - coalesce(b.bytes_until, 0)) as most_bytes
    from (
        select
            s.bytes_until,
            s.cell - m.fill_cells as from_cell
        from sums as s
        cross join mirror as m
    ) as s
    asof left join sums as b on s.from_cell >= b.cell
),

periods as (
    select
        (count(*) filter (where fills))::bigint as busy_periods,
        coalesce(sum(halves * half_ns) filter (where fills), 0)::bigint as busy_ns,
        coalesce(max(run_bytes), 0)::bigint as longest_run_bytes,
        coalesce(max(run_bytes) filter (where full_rate), 0)::bigint as longest_full_bytes
    from runs
),

occupied as (
    select coalesce(sum(port_bytes), 0)::bigint as occupied_bytes
    from arrivals
),

final as (
    select
        coalesce(least(f.most_bytes, q.waiting_bytes), 0) as filling_bytes,
        coalesce(f.most_bytes, 0) * 8e9 / (m.fill_cells * m.cell_ns) as window_peak_bps,
        o.occupied_bytes,
        m.late_ns,
        -- whether every time at which the queue can have been full is in a run
        coalesce(
            (select any_value(w.half_ns) from windows as w) * 3 * m.capacity_bps / 8e9
            + m.late_ns * m.capacity_bps / 8e9 <= m.fill_bytes, true
        ) as runs_complete,
        p.busy_periods,
        p.busy_ns,
        p.longest_run_bytes,
        p.longest_full_bytes
    from mirror as m
    cross join fillings as f
    cross join waiting as q
    cross join periods as p
    cross join occupied as o
)

select * from final
