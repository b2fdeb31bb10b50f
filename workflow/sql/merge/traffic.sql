-- One row per sample that counts in traffic statistics.
with

samples as (
    select * from samples
),

final as (
    select * from samples
    where excluded is null
)

select * from final
