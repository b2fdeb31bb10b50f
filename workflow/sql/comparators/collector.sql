-- One row per flow of the collector ($log, its flow table); records are its reports.
with

reported as (
    select * from read_parquet($log)
),

final as (
    select
        src,
        dst,
        ip_proto,
        src_port,
        dst_port,
        packets,
        bytes as ip_bytes,
        reports as records
    from reported
)

select * from final
