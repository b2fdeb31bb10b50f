-- One row per stream in `wanted` that has payload in the capture. cookie_bytes: iperf3's client sends them when it
-- connects, before the test; they do not count. missing_bytes: sequence numbers that no frame contains (capture loss).
-- cut: the capture contains no FIN or RST of the connection, so it may end before the test. retransmits_late:
-- retransmissions after the end of the test according to iperf3. done_ns: time at which the receiver had acknowledged
-- the requested bytes.
with

wanted as (
    select * from wanted
),

frames as (
    select * from frames
),

segments as (
    select * from segments
),

opened as (
    select
        wanted.stream,
        min(frames.ts_ns) as syn_ns
    from frames
    inner join wanted on frames.flow = wanted.flow or frames.flow = wanted.peer_flow
    where frames.tcp_flags & 18 = 2
    group by wanted.stream
),

started as (
    select
        segments.stream,
        min(segments.ts_ns) as start_ns
    from segments
    inner join wanted on segments.stream = wanted.stream
    where segments.data_at >= wanted.cookie_bytes
    group by segments.stream
),

covered as (
    select
        *,
        greatest(
            0,
            data_end - greatest(
                data_at,
                coalesce(
                    max(data_end) over (
                        partition by stream
                        order by data_at, frame
                        rows between unbounded preceding and 1 preceding
                    ),
                    data_at
                )
            )
        ) as fresh
    from segments
),

summed as (
    select
        covered.stream,
        started.start_ns,
        sum(covered.payload_len)::bigint as payload_bytes,
        sum(covered.fresh)::bigint as distinct_bytes,
        max(covered.data_end) - min(covered.data_at) - sum(covered.fresh)::bigint as missing_bytes,
        sum(covered.ip_len)::bigint as ip_bytes,
        sum(covered.wire_len)::bigint as frame_bytes,
        count(*) as data_frames,
        count(*) filter (where covered.repeated) as retransmits,
        count(*) filter (where covered.repeated and covered.ts_ns > started.start_ns + wanted.sender_ns)
            as retransmits_late,
        max(covered.ts_ns) as last_data_ns
    from covered
    inner join started on covered.stream = started.stream
    inner join wanted on covered.stream = wanted.stream
    group by covered.stream, started.start_ns
),

acked as (
    select
        stream,
        max(ts_ns) as last_ack_ns
    from acknowledgments
    group by stream
),

done as (
    select
        acknowledgments.stream,
        min(acknowledgments.ts_ns) as done_ns
    from acknowledgments
    inner join wanted on acknowledgments.stream = wanted.stream
    where acknowledgments.ack_at >= wanted.cookie_bytes + wanted.size_bytes
    group by acknowledgments.stream
),

delays as (
    select
        stream,
        count(*) as rtts,
        min(rtt_ns) as rtt_min_ns,
        round(avg(rtt_ns))::bigint as rtt_mean_ns,
        quantile_disc(rtt_ns, 0.99) as rtt_p99_ns
    from round_trips
    group by stream
),

flights as (
    select
        stream,
        max(flight_bytes) as flight_max_bytes,
        quantile_disc(flight_bytes, 0.95) as flight_p95_bytes
    from flights
    group by stream
),

final as (
    select
        s.stream,
        opened.syn_ns,
        s.start_ns,
        greatest(s.last_data_ns, coalesce(acked.last_ack_ns, s.last_data_ns)) as end_ns,
        done.done_ns,
        greatest(0, s.distinct_bytes - wanted.cookie_bytes) as bytes,
        greatest(0, s.payload_bytes - s.distinct_bytes) as retransmitted_bytes,
        greatest(0, s.missing_bytes) as missing_bytes,
        s.ip_bytes,
        s.frame_bytes,
        coalesce(wanted.cut_end, false) as cut,
        s.data_frames,
        s.retransmits,
        s.retransmits_late,
        delays.rtts,
        delays.rtt_min_ns,
        delays.rtt_mean_ns,
        delays.rtt_p99_ns,
        flights.flight_max_bytes,
        flights.flight_p95_bytes
    from summed as s
    inner join wanted on s.stream = wanted.stream
    left join opened on s.stream = opened.stream
    left join acked on s.stream = acked.stream
    left join done on s.stream = done.stream
    left join delays on s.stream = delays.stream
    left join flights on s.stream = flights.stream
)

select * from final
