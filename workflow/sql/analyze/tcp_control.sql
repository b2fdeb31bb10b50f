-- One row: control information of all TCP flows of the sample.
with

flows as (
    select * from flows
    where syn is not null
),

final as (
    select
        count(*)::ubigint as flows,
        coalesce(sum(frames), 0)::ubigint as frames,
        coalesce(sum(syn), 0)::ubigint as syn,
        coalesce(sum(syn_ack), 0)::ubigint as syn_ack,
        coalesce(sum(fin), 0)::ubigint as fin,
        coalesce(sum(rst), 0)::ubigint as rst,
        coalesce(sum(psh), 0)::ubigint as psh,
        coalesce(sum(ack), 0)::ubigint as ack,
        coalesce(sum(urg), 0)::ubigint as urg,
        coalesce(sum(ece), 0)::ubigint as ece,
        coalesce(sum(cwr), 0)::ubigint as cwr,
        coalesce(sum(retransmitted_bytes), 0)::ubigint as retransmitted_bytes,
        coalesce(sum(payload_bytes), 0)::ubigint as payload_bytes,
        coalesce(sum(duplicate_acks), 0)::ubigint as duplicate_acks
    from flows
)

select * from final
