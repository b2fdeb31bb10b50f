-- One row per site and header: how often it occurs.
with

site_shares as (
    select * from site_shares
    where kind = 'header'
),

final as (
    select
        site,
        category as header,
        frames,
        occurrences,
        total_frames,
        samples,
        share as frame_share,
        share_lo as frame_share_lo,
        share_hi as frame_share_hi,
        occurrences / nullif(total_frames, 0) as occurrence_share
    from site_shares
)

select * from final
