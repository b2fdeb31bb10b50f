-- One row per way with a handshake that can be timed, at its client's side; of several the last one.
-- rtt_syn_ns: SYN to the first SYN-ACK that acknowledges it; none where the SYN was sent twice before.
-- rtt_ack_ns: SYN-ACK to the first ACK of it; none where the SYN-ACK was sent twice before.
with

packets as (
    select * from packets
    where tcp_flags is not null
),

syns as (
    select * from packets
    where tcp_flags & 18 = 2
),

syn_acks as (
    select * from packets
    where tcp_flags & 18 = 18
),

-- Each SYN-ACK with the SYNs before it that it answers.
answered as (
    select
        syns.way,
        syn_acks.frame,
        syn_acks.way as server_way,
        syn_acks.ts_ns,
        syn_acks.tcp_seq,
        syn_acks.tcp_ack,
        count(*) as syns,
        max(syns.ts_ns) as syn_ns,
        max(syns.frame) as syn_frame
    from syn_acks
    inner join syns
        on
            syn_acks.way_back = syns.way
            and syn_acks.tcp_ack = (syns.tcp_seq::ubigint + 1) % 4294967296
            and syn_acks.frame > syns.frame
    group by
        syns.way,
        syn_acks.frame,
        syn_acks.way,
        syn_acks.ts_ns,
        syn_acks.tcp_seq,
        syn_acks.tcp_ack
),

first_answers as (
    select
        *,
        row_number() over (partition by way, tcp_ack order by frame) as place
    from answered
),

opened as (
    select * from first_answers
    where place = 1
),

acknowledged as (
    select
        opened.way,
        opened.frame,
        min_by(packets.frame, packets.frame) as ack_frame,
        min_by(packets.ts_ns, packets.frame) as ack_ns
    from opened
    inner join packets
        on
            opened.way = packets.way
            and opened.frame < packets.frame
            and packets.tcp_flags & 22 = 16
            and packets.tcp_ack = (opened.tcp_seq::ubigint + 1) % 4294967296
    group by opened.way, opened.frame
),

repeated as (
    select
        a.way,
        a.frame,
        count(*) as syn_acks
    from acknowledged as a
    inner join opened as o on a.way = o.way and a.frame = o.frame
    inner join syn_acks as s
        on o.server_way = s.way and o.tcp_seq = s.tcp_seq and o.frame <= s.frame and a.ack_frame > s.frame
    group by a.way, a.frame
),

timed as (
    select
        o.way,
        o.frame,
        case when o.syns = 1 then o.ts_ns - o.syn_ns end as rtt_syn_ns,
        case when r.syn_acks = 1 then a.ack_ns - o.ts_ns end as rtt_ack_ns
    from opened as o
    left join acknowledged as a on o.way = a.way and o.frame = a.frame
    left join repeated as r on o.way = r.way and o.frame = r.frame
),

final as (
    select
        way,
        max_by(rtt_syn_ns, frame) as rtt_syn_ns,
        max_by(rtt_ack_ns, frame) as rtt_ack_ns,
        count(*)::ubigint as handshakes
    from timed
    group by way
)

select * from final
