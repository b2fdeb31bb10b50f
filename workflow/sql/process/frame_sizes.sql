-- One row per site, length and bin: how many frames are that long.
with

frame_sizes as (
    select * from frame_sizes
),

scopes as (
    select * from scopes
),

totals as (
    select * from totals
),

intervals as (
    select * from intervals
),

counted as (
    select
        scopes.site,
        frame_sizes.length,
        frame_sizes.bin,
        frame_sizes.bin_lo,
        frame_sizes.bin_hi,
        sum(frame_sizes.frames)::ubigint as frames
    from frame_sizes
    inner join scopes on frame_sizes.sample = scopes.sample
    group by scopes.site, frame_sizes.length, frame_sizes.bin, frame_sizes.bin_lo, frame_sizes.bin_hi
),

final as (
    select
        c.site,
        c.length,
        c.bin,
        c.bin_lo,
        c.bin_hi,
        c.frames,
        t.frames as total_frames,
        c.frames / nullif(t.frames, 0) as share,
        i.share_lo,
        i.share_hi,
        t.samples
    from counted as c
    inner join totals as t on c.site = t.site
    left join intervals as i on c.site = i.site and c.length = i.kind and c.bin = i.category
)

select * from final
