-- One row: the maximum number of flows with packets between two resets of the sketch, which are at multiples of the
-- epoch.
with

packets as (
    select * from packets
),

counted as (
    select
        ts_ns // $epoch_ns as epoch,
        count(distinct key) as flows
    from packets
    group by 1
),

final as (
    select max(flows) as flows from counted
)

select * from final
