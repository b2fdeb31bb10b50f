-- One row per report that was newer than those before it: its flow of compared_flows, its time, the bytes it added, and
-- the inter-arrival time that it tells.
with

reported as (
    select * from reported_series
),

numbers as (
    select * from measured_numbers
),

final as (
    select
        numbers.flow,
        reported.window_ns as ts_ns,
        reported.bytes,
        reported.iat_ns
    from reported
    inner join numbers on reported.flow = numbers.number
)

select * from final
