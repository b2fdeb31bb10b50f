-- One row per site and header: how often it occurs.
with

headers as (
    select * from headers
),

scopes as (
    select * from scopes
),

totals as (
    select * from totals
),

intervals as (
    select * from intervals
    where kind = 'header'
),

counted as (
    select
        scopes.site,
        headers.header,
        sum(headers.frames)::ubigint as frames,
        sum(headers.occurrences)::ubigint as occurrences
    from headers
    inner join scopes on headers.sample = scopes.sample
    group by scopes.site, headers.header
),

final as (
    select
        c.site,
        c.header,
        c.frames,
        c.occurrences,
        t.frames as total_frames,
        t.samples,
        c.frames / t.frames as frame_share,
        i.share_lo as frame_share_lo,
        i.share_hi as frame_share_hi,
        c.occurrences / t.frames as occurrence_share
    from counted as c
    inner join totals as t on c.site = t.site
    left join intervals as i on c.site = i.site and c.header = i.category
)

select * from final
