-- One row per sample and site that it counts for: its own, and all.
with

samples as (
    select * from traffic
),

final as (
    select
        site,
        sample
    from samples
    union all
    select
        'all' as site,
        sample
    from samples
)

select * from final
