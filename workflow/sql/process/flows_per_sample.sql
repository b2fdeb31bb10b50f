-- One row per sample: its directed flows.
with

samples as (
    select * from traffic
),

quality as (
    select * from quality
),

connections as (
    select * from connections
),

pairs as (
    select
        sample,
        sum(connections) as connections
    from connections
    group by sample
),

final as (
    select
        s.site,
        s.port,
        s.sample,
        s.flows,
        coalesce(p.connections, 0)::ubigint as connections,
        q.frames,
        q.flow_frames,
        q.wire_bytes,
        q.first_ns,
        q.last_ns,
        q.last_ns - q.first_ns as duration_ns
    from samples as s
    inner join quality as q on s.sample = q.sample
    left join pairs as p on s.sample = p.sample
)

select * from final
