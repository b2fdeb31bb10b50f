-- One row per site and version of the innermost network header.
with

site_shares as (
    select * from site_shares
    where kind = 'ip_version'
),

final as (
    select
        site,
        category as ip_version,
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
