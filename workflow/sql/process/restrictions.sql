-- One row per restriction (null: none), its detail, and whether samples with it are excluded: their number and frames.
with

samples as (
    select * from samples
),

quality as (
    select * from quality
),

final as (
    select
        s.excluded is not null as excluded,
        s.restriction,
        s.restriction_detail as detail,
        count(*)::ubigint as samples,
        sum(q.frames)::ubigint as frames,
        sum(q.wire_bytes)::ubigint as wire_bytes
    from samples as s
    inner join quality as q on s.sample = q.sample
    group by s.excluded is not null, s.restriction, s.restriction_detail
)

select * from final
