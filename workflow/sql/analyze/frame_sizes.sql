-- One row per sample, length (outer, inner) and bin, including empty bins.
with

frames as (
    select * from frames
),

samples as (
    select * from samples
),

bins as (
    select * from length_bins
),

frame_lengths as (
    select * from frame_lengths
),

lengths as (
    select
        sample,
        'outer' as length,
        wire_len as bytes,
        sum(frames) as frames
    from frame_lengths
    group by sample, wire_len
    union all
    select
        sample,
        'inner' as length,
        inner_wire_len as bytes,
        count(*) as frames
    from frames
    group by sample, inner_wire_len
),

kinds as (
    select unnest(['outer', 'inner']) as length
),

final as (
    select
        samples.sample,
        kinds.length,
        bins.bin,
        bins.bin_lo::uinteger as bin_lo,
        bins.bin_hi::uinteger as bin_hi,
        coalesce(sum(lengths.frames), 0)::ubigint as frames
    from samples
    cross join bins
    cross join kinds
    left join lengths
        on
            samples.sample = lengths.sample
            and kinds.length = lengths.length
            and bins.bin_lo <= lengths.bytes
            and (bins.bin_hi is null or bins.bin_hi >= lengths.bytes)
    group by samples.sample, kinds.length, bins.bin, bins.bin_lo, bins.bin_hi
    order by samples.sample, kinds.length, bins.bin_lo
)

select * from final
