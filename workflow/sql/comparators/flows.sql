-- One row per flow: the records of a tool, the collector or the digest (table tool_records), with the key that all of
-- them share: no tags, ports of TCP and UDP only.
with

tool_records as (
    select * from tool_records
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
    from tool_records
    group by all
)

select * from final
