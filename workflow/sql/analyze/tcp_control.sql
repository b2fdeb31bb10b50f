-- One row per sample: control information of all its TCP flows.
with

flows as (
    select * from flows
    where syn is not null
),

samples as (
    select * from samples
),

final as (
    select
        samples.sample,
        count(flows.sample)::ubigint as flows,
        coalesce(sum(flows.frames), 0)::ubigint as frames,
        coalesce(sum(flows.syn), 0)::ubigint as syn,
        coalesce(sum(flows.syn_ack), 0)::ubigint as syn_ack,
        coalesce(sum(flows.fin), 0)::ubigint as fin,
        coalesce(sum(flows.rst), 0)::ubigint as rst,
        coalesce(sum(flows.psh), 0)::ubigint as psh,
        coalesce(sum(flows.ack), 0)::ubigint as ack,
        coalesce(sum(flows.urg), 0)::ubigint as urg,
        coalesce(sum(flows.ece), 0)::ubigint as ece,
        coalesce(sum(flows.cwr), 0)::ubigint as cwr,
        coalesce(sum(flows.retransmitted_bytes), 0)::ubigint as retransmitted_bytes,
        coalesce(sum(flows.payload_bytes), 0)::ubigint as payload_bytes,
        coalesce(sum(flows.duplicate_acks), 0)::ubigint as duplicate_acks
    from samples
    left join flows on samples.sample = flows.sample
    group by samples.sample
    order by samples.sample
)

select * from final
