-- One row per sample and run of busy windows that overlap or touch. Loss requires a full queue, whose content is sent
-- back to back; the queue cannot be full before full_ns, the run's start plus the time to send fill_bytes. A run of at
-- least fill_bytes is a busy period, unless its frames arrived too slowly to fill the queue.
with

windows as (
    select * from windows
),

mirror as (
    select * from mirror
),

stretches as (
    select * from stretches
),

-- stretches that can have filled the queue; stretches of a sample do not overlap
full_stretches as (
    select
        s.sample,
        s.from_ns,
        s.to_ns
    from stretches as s
    inner join mirror as m on s.sample = m.sample
    where s.waiting_bytes >= m.fill_bytes
),

islands as (
    select
        *,
        half - row_number() over (partition by sample, busy order by half) as island
    from windows
),

runs as (
    select
        sample,
        -- the first window also includes the preceding half
        min(half) - 1 as first_half,
        max(half) + 1 as end_half,
        any_value(half_ns) as half_ns,
        count(*) + 1 as halves,
        sum(half_bytes) + min_by(window_bytes - half_bytes, half) as run_bytes,
        sum(half_bytes) - max_by(half_bytes, half) as inner_bytes,
        count(*) - 1 as inner_halves
    from islands
    where busy
    group by sample, island
),

final as (
    select
        r.sample,
        r.first_half * r.half_ns as from_ns,
        r.end_half * r.half_ns as to_ns,
        r.first_half * r.half_ns + (m.fill_bytes * 8e9 / m.capacity_bps)::bigint as full_ns,
        r.halves,
        r.half_ns,
        r.run_bytes,
        -- s is the last of these stretches that starts before the run's end
        coalesce(r.run_bytes >= m.fill_bytes and s.to_ns >= r.first_half * r.half_ns, false) as fills,
        -- parts excluded by its first and last window
        r.run_bytes + (2 - $busy_share) * r.half_ns * m.capacity_bps / 8e9 as max_bytes,
        -- only a part of the first and last half is in the run
        r.inner_halves > 0
        and r.inner_bytes * 8e9 >= $full_share * m.capacity_bps * r.inner_halves * r.half_ns as full_rate
    from runs as r
    inner join mirror as m on r.sample = m.sample
    asof left join full_stretches as s on r.sample = s.sample and r.end_half * r.half_ns >= s.from_ns
)

select * from final
