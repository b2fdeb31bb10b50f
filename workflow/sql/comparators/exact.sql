-- One row per flow of a digest as other tools tell flows apart: no tags, ports of TCP and UDP alone.
with

digested as (
    select * from read_parquet($flows)
),

final as (
    select
        src,
        dst,
        ip_proto,
        if(ip_proto in (6, 17), coalesce(src_port, 0), 0)::usmallint as src_port,
        if(ip_proto in (6, 17), coalesce(dst_port, 0), 0)::usmallint as dst_port,
        sum(frames)::ubigint as packets,
        sum(ip_bytes)::ubigint as ip_bytes,
        1::ubigint as records
    from digested
    group by all
)

select * from final
