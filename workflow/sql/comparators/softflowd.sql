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

directions as (
    select
        regexp_extract(
            line,
            '^(?:EXPIRED:|ACTIVE) seq:\d+ \[([^\]]+)\]:(\d+) <> \[([^\]]+)\]:(\d+) proto:(\d+) '
            || 'octets>:(\d+) packets>:(\d+) octets<:(\d+) packets<:(\d+) ',
            ['a', 'a_port', 'b', 'b_port', 'ip_proto', 'a_bytes', 'a_packets', 'b_bytes', 'b_packets']
        ) as parsed
    from lines
    where line like 'EXPIRED: %' or line like 'ACTIVE %'
),

directed as (
    select
        parsed.a as src,
        parsed.b as dst,
        parsed.ip_proto,
        parsed.a_port as src_port,
        parsed.b_port as dst_port,
        parsed.a_packets as packets,
        parsed.a_bytes as ip_bytes
    from directions
    union all by name
    select
        parsed.b as src,
        parsed.a as dst,
        parsed.ip_proto,
        parsed.b_port as src_port,
        parsed.a_port as dst_port,
        parsed.b_packets as packets,
        parsed.b_bytes as ip_bytes
    from directions
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
