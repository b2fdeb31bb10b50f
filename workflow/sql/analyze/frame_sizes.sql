-- One row per length (outer, inner) and bin, including empty bins.
with

frames as (
    select * from frames
),

bins as (
    select * from length_bins
),

lengths as (
    select
        'outer' as length,
        wire_len as bytes,
        count(*) as frames
    from frames
    group by wire_len
    union all
    select
        'inner' as length,
        inner_wire_len as bytes,
        count(*) as frames
    from frames
    group by inner_wire_len
),

kinds as (
    select unnest(['outer', 'inner']) as length
),

final as (
    select
        kinds.length,
        bins.bin,
        bins.bin_lo::uinteger as bin_lo,
        bins.bin_hi::uinteger as bin_hi,
        coalesce(sum(lengths.frames), 0)::ubigint as frames
    from bins
    cross join kinds
    left join lengths
        on
            kinds.length = lengths.length
            and bins.bin_lo <= lengths.bytes
            and (bins.bin_hi is null or bins.bin_hi >= lengths.bytes)
    group by kinds.length, bins.bin, bins.bin_lo, bins.bin_hi
    order by kinds.length, bins.bin_lo
)

select * from final
