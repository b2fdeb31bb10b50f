-- One row per site, port and uninterrupted time that its samples cover.
with

samples as (
    select * from traffic
    where start_ns is not null
),

timeline as (
    select * from timeline
),

final as (
    select
        s.site,
        s.port,
        min(s.start_ns) as start_ns,
        max(s.end_ns) as end_ns
    from samples as s
    inner join timeline as t on s.sample = t.sample
    group by s.site, s.port, t.gaps_before
)

select * from final
