-- One row per day (UTC): the number of slices that exist at the same time, weighted by time.
with

days as (
    select
        slices,
        from_ns,
        to_ns,
        unnest(range(from_ns // 86400000000000, (to_ns - 1) // 86400000000000 + 1)) as day
    from slice_steps
),

parts as (
    select
        day,
        slices,
        least(to_ns, (day + 1) * 86400000000000) - greatest(from_ns, day * 86400000000000) as covered_ns
    from days
),

final as (
    select
        strftime(make_timestamp(day * 86400000000), '%Y-%m-%d') as day,
        sum(covered_ns)::bigint as covered_ns,
        sum(slices::hugeint * covered_ns) / sum(covered_ns) as slices_mean,
        min(slices) as slices_min,
        max(slices) as slices_max
    from parts
    group by day
)

select * from final
