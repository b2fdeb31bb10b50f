-- One row per acap and header stack: its frames and bytes.
with

frames as (
    select * from read_parquet($files, filename = true)
),

final as (
    select
        filename as file,
        protocols,
        stack,
        count(*)::ubigint as frames,
        sum(wire_len)::ubigint as wire_bytes
    from frames
    group by filename, protocols, stack
)

select * from final
