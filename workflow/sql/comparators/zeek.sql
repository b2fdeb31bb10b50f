-- One row per directed flow in Zeek's conn.log as JSON ($log). A line of the log has both directions of a connection.
with

connections as (
    select *
    from read_json(
        $log,
        format = 'newline_delimited',
        columns = {
            'id.orig_h': 'VARCHAR',
            'id.orig_p': 'USMALLINT',
            'id.resp_h': 'VARCHAR',
            'id.resp_p': 'USMALLINT',
            'proto': 'VARCHAR',
            'orig_pkts': 'UBIGINT',
            'orig_ip_bytes': 'UBIGINT',
            'resp_pkts': 'UBIGINT',
            'resp_ip_bytes': 'UBIGINT'
        }
    )
),

named as (
    select
        "id.orig_h" as orig,
        "id.resp_h" as resp,
        case
            when proto = 'tcp' then 6
            when proto = 'udp' then 17
            when proto = 'icmp' and contains("id.orig_h", ':') then 58
            when proto = 'icmp' then 1
            else 255
        end as ip_proto,
        "id.orig_p" as orig_port,
        "id.resp_p" as resp_port,
        orig_pkts,
        orig_ip_bytes,
        resp_pkts,
        resp_ip_bytes
    from connections
),

directed as (
    select
        orig as src,
        resp as dst,
        ip_proto,
        orig_port as src_port,
        resp_port as dst_port,
        orig_pkts as packets,
        orig_ip_bytes as ip_bytes
    from named
    union all by name
    select
        resp as src,
        orig as dst,
        ip_proto,
        resp_port as src_port,
        orig_port as dst_port,
        resp_pkts as packets,
        resp_ip_bytes as ip_bytes
    from named
),

final as (
    select
        src,
        dst,
        ip_proto,
        src_port,
        dst_port,
        packets,
        ip_bytes,
        1 as records
    from directed
    where packets > 0
)

select * from final
