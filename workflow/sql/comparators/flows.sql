-- One row per flow of what a tool, the collector or the digest tells (table told, ports as they have them), as all of
-- them tell flows apart: no tags, ports of TCP and UDP alone.
with

told as (
    select * from told
),

final as (
    select
        src,
        dst,
        ip_proto::utinyint as ip_proto,
        coalesce(case when ip_proto in (6, 17) then src_port end::usmallint, 0)::usmallint as src_port,
        coalesce(case when ip_proto in (6, 17) then dst_port end::usmallint, 0)::usmallint as dst_port,
        sum(packets)::ubigint as packets,
        sum(ip_bytes)::ubigint as ip_bytes,
        sum(records)::ubigint as records
    from told
    group by all
)

select * from final
