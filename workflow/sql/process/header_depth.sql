-- One row per site: its number of different headers, and the depth of its header stacks.
with

headers as (
    select * from headers
),

stacks as (
    select * from stacks
),

scopes as (
    select * from scopes
),

totals as (
    select * from totals
),

distinct_headers as (
    select
        scopes.site,
        count(distinct headers.header) as distinct_headers
    from headers
    inner join scopes on headers.sample = scopes.sample
    where headers.header <> 'Data' -- payload, which is not a header
    group by scopes.site
),

site_stacks as (
    select
        scopes.site,
        stacks.stack,
        stacks.headers,
        sum(stacks.frames) as frames
    from stacks
    inner join scopes on stacks.sample = scopes.sample
    group by scopes.site, stacks.stack, stacks.headers
),

deepest as (
    select
        site,
        count(*) as distinct_stacks,
        max(headers) as deepest_stack,
        first(stack order by headers desc, frames desc, stack asc) as deepest_example
    from site_stacks
    group by site
),

final as (
    select
        t.site,
        coalesce(h.distinct_headers, 0)::ubigint as distinct_headers,
        coalesce(d.distinct_stacks, 0)::ubigint as distinct_stacks,
        coalesce(d.deepest_stack, 0)::ubigint as deepest_stack,
        d.deepest_example,
        t.frames,
        t.samples
    from totals as t
    left join distinct_headers as h on t.site = h.site
    left join deepest as d on t.site = d.site
)

select * from final
