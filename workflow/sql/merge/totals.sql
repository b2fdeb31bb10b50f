-- One row per site, and all: its samples and frames.
with

scopes as (
    select * from scopes
),

quality as (
    select * from quality
),

final as (
    select
        scopes.site,
        count(*)::ubigint as samples,
        sum(quality.frames)::ubigint as frames
    from scopes
    inner join quality on scopes.sample = quality.sample
    group by scopes.site
)

select * from final
