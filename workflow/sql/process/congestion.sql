-- One row per sample whose mirror has a known capacity: the verdict and its evidence.
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
