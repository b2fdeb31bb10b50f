-- One row per interval in which the number of slices is constant, from the first to the last start of a slice.
with

changes as (
    select
        start_ns as at_ns,
        1 as change
    from raw_slices
    where end_ns > start_ns
    union all
    select
        end_ns as at_ns,
        -1 as change
    from raw_slices
    where end_ns > start_ns
),

times as (
    select
        at_ns,
        sum(change) as change
    from changes
    group by at_ns
),

counted as (
    select
        at_ns as from_ns,
        lead(at_ns) over (order by at_ns) as to_ns,
        (sum(change) over (order by at_ns))::bigint as slices
    from times
),

bounds as (
    select max(start_ns) as last_start_ns from raw_slices
    where end_ns > start_ns
),

final as (
    select
        counted.from_ns,
        least(counted.to_ns, bounds.last_start_ns) as to_ns,
        counted.slices
    from counted
    cross join bounds
    where counted.from_ns < bounds.last_start_ns
)

select * from final
