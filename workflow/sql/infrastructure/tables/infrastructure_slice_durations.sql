-- One row per duration of slices, rounded up to whole hours: the slices with this duration, and with at most this
-- duration.
with

slices as (
    select (end_ns - start_ns + 3600000000000 - 1) // 3600000000000 as hours from raw_slices
    where end_ns > start_ns
),

counted as (
    select
        hours,
        count(*) as slices
    from slices
    group by hours
),

final as (
    select
        hours,
        slices,
        (sum(slices) over (order by hours))::bigint as slices_at_most,
        sum(slices) over (order by hours) / sum(slices) over () as share_at_most
    from counted
)

select * from final
