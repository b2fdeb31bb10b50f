-- One row per site, length and bin: the number of frames with a length in the bin.
with

bins as (
    select distinct
        length,
        bin,
        bin_lo,
        bin_hi
    from frame_sizes
),

site_shares as (
    select * from site_shares
),

final as (
    select
        s.site,
        b.length,
        b.bin,
        b.bin_lo,
        b.bin_hi,
        s.frames,
        s.total_frames,
        s.share,
        s.share_lo,
        s.share_hi,
        s.samples
    from site_shares as s
    inner join bins as b on s.kind = b.length and s.category = b.bin
)

select * from final
