-- One row: the most flows that have packets between two resets of the sketch.
with

packets as (
    select * from packets
),

ends as (
    select min(ts_ns) as first_ns from packets
),

counted as (
    select
        (packets.ts_ns - ends.first_ns) // $epoch_ns as epoch,  -- noqa: RF02
        count(distinct packets.key) as flows
    from packets
    cross join ends
    group by 1
),

final as (
    select max(flows) as flows from counted
)

select * from final
