-- One row per sample with a verdict other than unknown: the verdict and its evidence.
with

samples as (
    select * from samples
),

congestion as (
    select * from congestion
),

final as (
    select
        s.site,
        s.port,
        c.*
    from congestion as c
    inner join samples as s on c.sample = s.sample
    where c.verdict <> 'unknown'
)

select * from final
