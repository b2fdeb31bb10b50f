-- One row per report that was newer than those before it: the collector's number of its flow, its time, the bytes and
-- packets that it added. place: order of the reports.
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
