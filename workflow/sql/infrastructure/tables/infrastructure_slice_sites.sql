-- One row per number of sites: the slices that use this number of sites.
with

slices as (
    select
        slice,
        count(*) as sites
    from raw_slice_sites
    group by slice
),

counted as (
    select
        sites,
        count(*) as slices
    from slices
    group by sites
),

final as (
    select
        sites,
        slices,
        slices / sum(slices) over () as share,
        sum(slices) over (order by sites) / sum(slices) over () as share_at_most
    from counted
)

select * from final
