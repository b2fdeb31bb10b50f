-- One row per directed flow in softflowd's log ($log). A line of the log has both directions, one of which may be
-- empty.
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

told as (
    select
        regexp_extract(
            line,
            '^(?:EXPIRED:|ACTIVE) seq:\d+ \[([^\]]+)\]:(\d+) <> \[([^\]]+)\]:(\d+) proto:(\d+) '
            || 'octets>:(\d+) packets>:(\d+) octets<:(\d+) packets<:(\d+) ',
            ['a', 'a_port', 'b', 'b_port', 'ip_proto', 'a_bytes', 'a_packets', 'b_bytes', 'b_packets']
        ) as said
    from lines
    where line like 'EXPIRED: %' or line like 'ACTIVE %'
),

directed as (
    select
        said.a as src,
        said.b as dst,
        said.ip_proto,
        said.a_port as src_port,
        said.b_port as dst_port,
        said.a_packets as packets,
        said.a_bytes as ip_bytes
    from told
    union all by name
    select
        said.b as src,
        said.a as dst,
        said.ip_proto,
        said.b_port as src_port,
        said.a_port as dst_port,
        said.b_packets as packets,
        said.b_bytes as ip_bytes
    from told
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
    from directed
    where packets != '0'
)

select * from final
