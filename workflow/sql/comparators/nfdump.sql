-- One row per record that nfdump prints from nfpcapd's files ($log); a flow can have several, for example of DNS
-- queries.
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
        src_port,
        dst_port,
        packets::ubigint as packets,
        ip_bytes::ubigint as ip_bytes,
        1 as records
    from named
    where packets != '0'
)

select * from final
