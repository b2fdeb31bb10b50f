-- One row per sample and time bin with frames that have a time; bins are multiples of $bin_ns since 1970-01-01 UTC.
with

frames as (
    select * from frames
),

binned as (
    select
        sample,
        ts_ns - ((ts_ns % $bin_ns) + $bin_ns) % $bin_ns as start_ns,
        wire_len
    from frames
    where ts_ns is not null
),

final as (
    select
        sample,
        start_ns::bigint as start_ns,
        $bin_ns::bigint as bin_ns,
        count(*)::ubigint as frames,
        sum(wire_len)::ubigint as wire_bytes
    from binned
    group by sample, start_ns
    order by sample, start_ns
)

select * from final
