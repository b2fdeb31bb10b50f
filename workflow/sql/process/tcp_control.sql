-- One row per site: TCP control information. Percentiles by nearest rank.
with

tcp_control as (
    select * from tcp_control
),

connections as (
    select * from connections
    where ip_proto = 6
),

scopes as (
    select * from scopes
),

totals as (
    select * from totals
),

counted as (
    select
        scopes.site,
        sum(tcp_control.flows)::ubigint as flows,
        sum(tcp_control.frames)::ubigint as frames,
        sum(tcp_control.syn)::ubigint as syn,
        sum(tcp_control.syn_ack)::ubigint as syn_ack,
        sum(tcp_control.fin)::ubigint as fin,
        sum(tcp_control.rst)::ubigint as rst,
        sum(tcp_control.psh)::ubigint as psh,
        sum(tcp_control.ack)::ubigint as ack,
        sum(tcp_control.urg)::ubigint as urg,
        sum(tcp_control.ece)::ubigint as ece,
        sum(tcp_control.cwr)::ubigint as cwr,
        sum(tcp_control.retransmitted_bytes)::ubigint as retransmitted_bytes,
        sum(tcp_control.payload_bytes)::ubigint as payload_bytes,
        sum(tcp_control.duplicate_acks)::ubigint as duplicate_acks
    from tcp_control
    inner join scopes on tcp_control.sample = scopes.sample
    group by scopes.site
),

pairs as (
    select
        scopes.site,
        connections.handshake_rtt_ns,
        sum(connections.connections)::bigint as connections
    from connections
    inner join scopes on connections.sample = scopes.sample
    group by scopes.site, connections.handshake_rtt_ns
),

connected as (
    select
        site,
        sum(connections)::ubigint as connections,
        coalesce(sum(connections) filter (where handshake_rtt_ns is not null), 0)::ubigint as handshakes
    from pairs
    group by site
),

ranks as (
    select
        site,
        handshake_rtt_ns,
        sum(connections) over (partition by site order by handshake_rtt_ns rows unbounded preceding) as upto,
        sum(connections) over (partition by site) as handshakes
    from pairs
    where handshake_rtt_ns is not null
),

percentiles as (
    select
        site,
        min(handshake_rtt_ns) filter (where upto * 100 >= handshakes * 50) as handshake_rtt_p50_ns,
        min(handshake_rtt_ns) filter (where upto * 100 >= handshakes * 99) as handshake_rtt_p99_ns
    from ranks
    group by site
),

final as (
    select
        c.*,
        coalesce(n.connections, 0)::ubigint as connections,
        coalesce(n.handshakes, 0)::ubigint as handshakes,
        p.handshake_rtt_p50_ns,
        p.handshake_rtt_p99_ns,
        t.samples
    from counted as c
    inner join totals as t on c.site = t.site
    left join connected as n on c.site = n.site
    left join percentiles as p on c.site = p.site
)

select * from final
