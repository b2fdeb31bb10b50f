-- One row per sample, protocol and handshake RTT (null: no complete handshake): the number of flow pairs with this RTT.
-- The two flows of a pair are each other's peer.
with

flows as (
    select * from flows
),

pairs as (
    select
        fwd.sample,
        fwd.ip_proto,
        coalesce(fwd.handshake_rtt_ns, rev.handshake_rtt_ns) as handshake_rtt_ns
    from flows as fwd
    inner join flows as rev
        on
            fwd.sample = rev.sample and fwd.peer_flow = rev.flow and fwd.flow = rev.peer_flow
            and fwd.flow < rev.flow
),

final as (
    select
        sample,
        ip_proto,
        handshake_rtt_ns,
        count(*)::ubigint as connections
    from pairs
    group by sample, ip_proto, handshake_rtt_ns
    order by sample, ip_proto, handshake_rtt_ns
)

select * from final
