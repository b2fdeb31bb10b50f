-- One row per site and encapsulation: what stands before the innermost network header.
with

stacks as (
    select * from stacks
),

scopes as (
    select * from scopes
),

totals as (
    select * from totals
),

intervals as (
    select * from intervals
    where kind = 'encapsulation'
),

counted as (
    select
        scopes.site,
        stacks.encapsulation,
        sum(stacks.frames)::ubigint as frames,
        sum(stacks.wire_bytes)::ubigint as wire_bytes
    from stacks
    inner join scopes on stacks.sample = scopes.sample
    group by scopes.site, stacks.encapsulation
),

final as (
    select
        c.site,
        c.encapsulation,
        c.frames,
        c.wire_bytes,
        t.frames as total_frames,
        c.frames / t.frames as share,
        i.share_lo,
        i.share_hi,
        t.samples
    from counted as c
    inner join totals as t on c.site = t.site
    left join intervals as i on c.site = i.site and c.encapsulation = i.category
)

select * from final
