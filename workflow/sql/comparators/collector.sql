-- One row per flow of the collector ($log, its flow table) as other tools tell flows apart; records are its reports.
with

reported as (
    select * from read_parquet($log)
),

final as (
    select
        src,
        dst,
        ip_proto,
        if(ip_proto in (6, 17), coalesce(src_port, 0), 0)::usmallint as src_port,
        if(ip_proto in (6, 17), coalesce(dst_port, 0), 0)::usmallint as dst_port,
        sum(packets)::ubigint as packets,
        sum(bytes)::ubigint as ip_bytes,
        sum(reports)::ubigint as records
    from reported
    group by all
)

select * from final
