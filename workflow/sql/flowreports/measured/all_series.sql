-- One row per report newer than the previous one of its flow: the flow's number in the collector, the report's time,
-- and the bytes and packets that it added. place: order of the reports.
with

final as (
    select
        flow as number,
        window_ns as ts_ns,
        bytes,
        packets,
        row_number() over () as place
    from reported_series
)

select * from final
