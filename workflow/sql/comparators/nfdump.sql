-- One row per flow of what nfdump prints of nfpcapd's files ($log); a flow may have several records, as DNS queries do.
with

lines as (
    select line
    from read_csv(
        $log,
        columns = {
            'line': 'VARCHAR'
        },
        auto_detect = false,
        delim = chr(1),
        quote = '',
        escape = '',
        header = false
    )
),

records as (
    select string_split(replace(line, ' ', ''), '|') as cells
    from lines
    where line like '%|%|%|%|%|%|%'
),

named as (
    select
        cells[1] as src,
        cells[2] as dst,
        cells[3] as ip_proto,
        cells[4] as src_port,
        cells[5] as dst_port,
        cells[6] as packets,
        cells[7] as ip_bytes
    from records
),

final as (
    select
        src,
        dst,
        ip_proto::utinyint as ip_proto,
        if(ip_proto in ('6', '17'), src_port, '0')::usmallint as src_port,
        if(ip_proto in ('6', '17'), dst_port, '0')::usmallint as dst_port,
        sum(packets::ubigint)::ubigint as packets,
        sum(ip_bytes::ubigint)::ubigint as ip_bytes,
        count(*)::ubigint as records
    from named
    where packets != '0'
    group by all
)

select * from final
