-- One row per sample: how busy the mirror port was, by the arrival of its frames; no row if its capacity is unknown.
-- The content of a full queue is sent back to back: fill_bytes in their transmission time at the port's rate,
-- timestamped at most late_ns late. A cell is 1/32 of the transmission time. fill_cells, rounded up, cover this time
-- and late_ns, with one more for the start. If fill_cells successive cells never have fill_bytes, or if no stretch of
-- frames can have left as many waiting, the queue was never full, independent of the windows.
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
    select
        sample,
        max(waiting_bytes) as waiting_bytes
    from stretches
    group by sample
),

lateness as (
    select
        sample,
        max(late_ns) as late_ns,
        sum(port_bytes)::bigint as occupied_bytes
    from arrivals
    group by sample
),

mirror as (
    select
        m.*,
        coalesce(l.late_ns, 0) as late_ns,
        coalesce(l.occupied_bytes, 0) as occupied_bytes,
        greatest(1, m.fill_bytes * 0.25e9 / m.capacity_bps)::bigint as cell_ns,
        ceil(32 + coalesce(l.late_ns, 0) / greatest(1, m.fill_bytes * 0.25e9 / m.capacity_bps))::bigint + 1
            as fill_cells
    from mirror as m
    left join lateness as l on m.sample = l.sample
    where m.capacity_bps > 0
),

cells as (
    select
        a.sample,
        a.at_ns // m.cell_ns as cell,
        sum(a.port_bytes) as cell_bytes
    from arrivals as a
    inner join mirror as m on a.sample = m.sample
    group by a.sample, cell
),

sums as (
    select
        *,
        sum(cell_bytes) over (partition by sample order by cell rows unbounded preceding) as bytes_until
    from cells
),

-- the bytes of fill_cells cells, as the difference of two cumulative sums
fillings as (
    select
        s.sample,
        max(s.bytes_until - coalesce(b.bytes_until, 0)) as max_bytes
    from (
        select
            s.sample,
            s.bytes_until,
            s.cell - m.fill_cells as from_cell
        from sums as s
        inner join mirror as m on s.sample = m.sample
    ) as s
    asof left join sums as b on s.sample = b.sample and s.from_cell >= b.cell
    group by s.sample
),

periods as (
    select
        sample,
        (count(*) filter (where fills))::bigint as busy_periods,
        coalesce(sum(halves * half_ns) filter (where fills), 0)::bigint as busy_ns,
        coalesce(max(run_bytes), 0)::bigint as longest_run_bytes,
        coalesce(max(run_bytes) filter (where full_rate), 0)::bigint as longest_full_bytes
    from runs
    group by sample
),

halves as (
    select
        sample,
        any_value(half_ns) as half_ns
    from windows
    group by sample
),

final as (
    select
        m.sample,
        coalesce(least(f.max_bytes, q.waiting_bytes), 0) as filling_bytes,
        coalesce(f.max_bytes, 0) * 8e9 / (m.fill_cells * m.cell_ns) as window_peak_bps,
        m.occupied_bytes,
        m.late_ns,
        -- whether every time at which the queue can have been full is in a run
        coalesce(
            w.half_ns * 3 * m.capacity_bps / 8e9
            + m.late_ns * m.capacity_bps / 8e9 <= m.fill_bytes, true
        ) as runs_complete,
        coalesce(p.busy_periods, 0) as busy_periods,
        coalesce(p.busy_ns, 0) as busy_ns,
        coalesce(p.longest_run_bytes, 0) as longest_run_bytes,
        coalesce(p.longest_full_bytes, 0) as longest_full_bytes
    from mirror as m
    left join fillings as f on m.sample = f.sample
    left join waiting as q on m.sample = q.sample
    left join periods as p on m.sample = p.sample
    left join halves as w on m.sample = w.sample
)

select * from final
