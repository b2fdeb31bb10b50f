-- One row: the number of pairs of values that differ, and the first of them.
with

pairs as (
    select * from pairs
),

final as (
    select
        count(*) as rows,
        min(pair) as first_pair,
        arg_min(published::varchar, pair) as published,
        arg_min(other::varchar, pair) as other
    from pairs
    where published is distinct from other
)

select * from final
