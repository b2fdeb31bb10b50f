-- One row per site and encapsulation: the headers before the innermost network header.
with

site_shares as (
    select * from site_shares
    where kind = 'encapsulation'
),

final as (
    select
        site,
        category as encapsulation,
        frames,
        wire_bytes,
        total_frames,
        share,
        share_lo,
        share_hi,
        samples
    from site_shares
)

select * from final
