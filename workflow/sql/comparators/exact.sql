-- One row per flow of a digest ($flows).
with

digested as (
    select * from read_parquet($flows)
),

final as (
    select
        src,
        dst,
        ip_proto,
        src_port,
        dst_port,
        frames as packets,
        ip_bytes,
        1 as records
    from digested
)

select * from final
