-- One row per site and header: its occurrences.
with

site_shares as (
    select * from site_shares
    where kind = 'header'
),

headers as (
    select * from headers
),

scopes as (
    select * from scopes
),

guesses as (
    select
        scopes.site,
        headers.header,
        sum(headers.guessed_frames) as frames
    from headers
    inner join scopes on headers.sample = scopes.sample
    group by scopes.site, headers.header
),

final as (
    select
        s.site,
        s.category as header,
        s.frames,
        s.occurrences,
        coalesce(g.frames, 0)::ubigint as guessed_frames,
        s.total_frames,
        s.samples,
        s.share as frame_share,
        s.share_lo as frame_share_lo,
        s.share_hi as frame_share_hi,
        s.occurrences / nullif(s.total_frames, 0) as occurrence_share
    from site_shares as s
    left join guesses as g on s.site = g.site and s.category = g.header
)

select * from final
