-- One row per way (direction) of a TCP client with a handshake of which at least one half was completed; of each half,
-- the last one that can be timed counts. A SYN or SYN-ACK with the sequence number of the previous one is a
-- retransmission, another number begins a new handshake. rtt_syn_ns: from the SYN to its first SYN-ACK; null if the SYN
-- was retransmitted before. rtt_ack_ns: from the SYN-ACK to its first ACK; null if the SYN-ACK was retransmitted
-- before.
with

packets as (
    select
        *,
        (tcp_seq::ubigint + 1) % 4294967296 as next_seq
    from packets
    where tcp_flags is not null
),

opening as (
    select
        frame,
        way,
        way_back,
        ts_ns,
        tcp_seq,
        tcp_ack,
        next_seq,
        tcp_flags & 16 = 16 as is_answer,
        coalesce(tcp_seq <> lag(tcp_seq) over (partition by way, tcp_flags & 16 order by frame), true) as is_new
    from packets
    where tcp_flags & 6 = 2
),

-- Each new SYN or SYN-ACK, with the frame of the next one in its direction.
begun as (
    select
        *,
        lead(frame, 1, 9223372036854775807) over (partition by way, is_answer order by frame) as until_frame
    from opening
    where is_new
),

-- The packet that completes a half: the SYN-ACK for a SYN, the ACK for a SYN-ACK.
ended as (
    select
        begun.way,
        begun.frame,
        min(packets.frame) as end_frame,
        min_by(packets.ts_ns, packets.frame) as end_ns
    from begun
    inner join packets
        on
            begun.way = packets.way_back
            and begun.next_seq = packets.tcp_ack
            and begun.frame < packets.frame
            and begun.until_frame > packets.frame
    where packets.tcp_flags & 22 = case when begun.is_answer then 16 else 18 end
    group by begun.way, begun.frame
),

-- Number of times that the SYN or SYN-ACK was sent before completion.
repeated as (
    select
        ended.way,
        ended.frame,
        count(*) as times
    from ended
    inner join begun on ended.way = begun.way and ended.frame = begun.frame
    inner join opening
        on
            begun.way = opening.way
            and begun.is_answer = opening.is_answer
            and begun.frame <= opening.frame
            and ended.end_frame > opening.frame
    group by ended.way, ended.frame
),

halves as (
    select
        begun.frame,
        begun.is_answer,
        case when begun.is_answer then begun.way_back else begun.way end as client_way,
        case when repeated.times = 1 then ended.end_ns - begun.ts_ns end as half_ns
    from begun
    inner join ended on begun.way = ended.way and begun.frame = ended.frame
    inner join repeated on begun.way = repeated.way and begun.frame = repeated.frame
),

final as (
    select
        client_way as way,
        max_by(half_ns, frame) filter (where not is_answer) as rtt_syn_ns,
        max_by(half_ns, frame) filter (where is_answer) as rtt_ack_ns,
        count(*) filter (where not is_answer)::ubigint as handshakes
    from halves
    group by client_way
)

select * from final
