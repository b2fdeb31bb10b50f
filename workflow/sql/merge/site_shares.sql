-- One row per kind of share, site (and all) and category: the sums over its samples, their share and its interval.
with

shares as (
    select * from shares
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
        shares.kind,
        scopes.site,
        shares.category,
        sum(shares.frames)::ubigint as frames,
        sum(shares.wire_bytes)::ubigint as wire_bytes,
        sum(shares.occurrences)::ubigint as occurrences
    from shares
    inner join scopes on shares.sample = scopes.sample
    group by shares.kind, scopes.site, shares.category
),

final as (
    select
        c.kind,
        c.site,
        c.category,
        c.frames,
        c.wire_bytes,
        c.occurrences,
        t.frames as total_frames,
        c.frames / nullif(t.frames, 0) as share,
        i.share_lo,
        i.share_hi,
        t.samples
    from counted as c
    inner join totals as t on c.site = t.site
    left join intervals as i on c.kind = i.kind and c.site = i.site and c.category = i.category
)

select * from final
