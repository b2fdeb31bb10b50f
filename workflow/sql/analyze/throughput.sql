-- One row per sample and time bin with frames that have a time; bins are multiples of $bin_ns since 1970-01-01 UTC.
with

frames as (
    select * from frames
),

binned as (
    select
        sample,
        ts_ns // $bin_ns - (ts_ns < 0 and ts_ns % $bin_ns <> 0)::bigint as bin,
        count(*) as frames,
        sum(wire_len) as wire_bytes
    from frames
    where ts_ns is not null
    group by sample, bin
),

final as (
    select
        sample,
        (bin * $bin_ns)::bigint as start_ns,
        $bin_ns::bigint as bin_ns,
        frames::ubigint as frames,
        wire_bytes::ubigint as wire_bytes
    from binned
    order by sample, start_ns
)

select * from final
