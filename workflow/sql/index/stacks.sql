-- One row per sample, value of protocols and header stack.
with

samples as (
    select * from samples
),

frames as (
    select * from read_parquet($files, filename = true)
),

counted as (
    select
        filename as file,
        protocols,
        stack,
        count(*)::ubigint as frames,
        sum(wire_len)::ubigint as wire_bytes
    from frames
    group by filename, protocols, stack
),

final as (
    select
        s.sample,
        s.site,
        s.port,
        s.excluded,
        c.protocols,
        c.stack,
        c.frames,
        c.wire_bytes
    from counted as c
    inner join samples as s on c.file = s.acap
    order by s.sample asc, c.frames desc, c.protocols asc, c.stack asc
)

select * from final
