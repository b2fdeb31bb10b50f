-- One row per report newer than the previous one of its flow: its flow in compared_flows, its time, the bytes, packets
-- and acknowledged bytes that it added, the bytes in flight, and the inter-arrival time. place: order of the reports.
with

reported as (
    select
        *,
        row_number() over () as place
    from reported_series
),

numbers as (
    select * from measured_numbers
),

final as (
    select
        numbers.flow,
        reported.window_ns as ts_ns,
        reported.bytes,
        reported.packets,
        reported.acknowledged_bytes,
        reported.bytes_in_flight,
        reported.iat_ns,
        reported.place
    from reported
    inner join numbers on reported.flow = numbers.number
)

select * from final
