-- One row per row of a published table and the row of the same key in another table: their numbers, from 0. Rows
-- without a counterpart have a null. Rows of equal keys are matched in their order.
with

published as (
    select
        row,
        key,
        row_number() over (partition by key order by row) as occurrence
    from published_keys
),

other as (
    select
        row,
        key,
        row_number() over (partition by key order by row) as occurrence
    from other_keys
),

final as (
    select
        p.row as published_row,
        o.row as other_row
    from published as p
    full join other as o on p.key is not distinct from o.key and p.occurrence = o.occurrence
    order by published_row nulls last, other_row
)

select * from final
