-- One row per stream: values of iperf3 and of the wire. iperf3 -n ends when the last byte is written to the sender's
-- socket, so its receiver's values are preferred. The ends of a run's streams are taken from the wire if the receiver
-- acknowledged all requested bytes of each stream: then every run of these settings moved the same bytes.
with

raw as (
    select * from raw_flows
),

wire as (
    select * from raw_wire
),

-- Offsets are only known if all starts are, because any process may be the first one. Data begins at most
-- start_error_ns after started_ns, so the first data of the run are sent at the latest at latest_ns.
run_starts as (
    select
        cell_id,
        run,
        count(distinct flow) = 1 as single,
        case when count(started_ns) = count(*) then min(started_ns) end as first_ns,
        case when count(start_error_ns) = count(*) then min(started_ns + start_error_ns) end as latest_ns
    from raw
    group by cell_id, run
),

-- The command that starts a process returns before or after the process sends; the capture has the time of its data.
first_frames as (
    select
        raw.cell_id,
        raw.run,
        raw.flow,
        min(wire.start_ns) as start_ns,
        count(*) = count(wire.start_ns) as captured
    from raw
    left join wire
        on raw.cell_id = wire.cell_id and raw.run = wire.run and raw.flow = wire.flow and raw.stream = wire.stream
    group by raw.cell_id, raw.run, raw.flow
),

wire_offsets as (
    select
        cell_id,
        run,
        flow,
        start_ns - min(start_ns) over runs as offset_ns,
        bool_and(captured) over runs as captured
    from first_frames
    window runs as (partition by cell_id, run)
),

-- The base of a queueing delay is measured on the stream's path, because paths have different lengths, or, if the path
-- is unknown, on the stream itself.
bases as (
    select
        wire.cell_id,
        wire.run,
        wire.flow,
        wire.stream,
        min(wire.rtt_min_ns) over (
            partition by
                wire.cell_id,
                wire.run,
                raw.path,
                case when raw.path is null then wire.flow end,
                case when raw.path is null then wire.stream end
        ) as base_ns
    from wire
    inner join raw
        on wire.cell_id = raw.cell_id and wire.run = raw.run and wire.flow = raw.flow and wire.stream = raw.stream
),

chosen as (
    select
        raw.*,
        case
            when wire_offsets.captured then wire_offsets.offset_ns
            when run_starts.single then 0
            else raw.started_ns - run_starts.first_ns
        end as offset_ns,
        case
            when wire_offsets.captured or run_starts.single then 0
            when raw.start_error_ns is not null and run_starts.latest_ns is not null
                then greatest(raw.start_error_ns, run_starts.latest_ns - run_starts.first_ns)
        end as offset_error_ns,
        coalesce(raw.received_bytes, raw.sent_bytes) as bytes,
        case when raw.received_bytes is null then raw.sender_ns else coalesce(raw.receiver_ns, raw.sender_ns) end
            as completion_ns
    from raw
    inner join run_starts on raw.cell_id = run_starts.cell_id and raw.run = run_starts.run
    inner join wire_offsets
        on raw.cell_id = wire_offsets.cell_id and raw.run = wire_offsets.run and raw.flow = wire_offsets.flow
),

joined as (
    select
        c.cell_id,
        c.run,
        c.flow,
        c.stream,
        c.path,
        c.file,
        c.iperf3_version,
        c.algorithm,
        c.reverse,
        c.local_port,
        c.remote_port,
        c.measured_rtt_ns,
        c.offset_ns,
        c.offset_error_ns,
        c.sent_bytes,
        c.sender_ns,
        c.received_bytes,
        c.receiver_ns,
        c.bytes,
        c.completion_ns,
        c.offset_ns + case
            when bool_and(wire.done_ns is not null) over runs then wire.done_ns - wire.start_ns
            else c.completion_ns
        end as end_ns,
        bool_and(wire.done_ns is not null) over runs as end_of_wire,
        (8000000000 * c.bytes::hugeint // nullif(c.completion_ns, 0))::bigint as throughput_bps,
        c.retransmits,
        c.rtt_min_ns,
        c.rtt_mean_ns,
        c.rtt_max_ns,
        c.cwnd_max_bytes,
        wire.start_ns as wire_start_ns,
        wire.end_ns as wire_end_ns,
        wire.done_ns as wire_done_ns,
        wire.bytes as wire_bytes,
        wire.done_ns - wire.start_ns as wire_completion_ns,
        wire.end_ns - wire.start_ns as wire_duration_ns,
        (8000000000 * wire.bytes::hugeint // nullif(wire.end_ns - wire.start_ns, 0))::bigint as wire_throughput_bps,
        wire.start_ns - wire.syn_ns as wire_start_up_ns,
        wire.retransmits as wire_retransmits,
        wire.retransmits_late as wire_retransmits_late,
        wire.retransmitted_bytes as wire_retransmitted_bytes,
        wire.missing_bytes as wire_missing_bytes,
        wire.cut as wire_cut,
        wire.ip_bytes as wire_ip_bytes,
        wire.frame_bytes as wire_frame_bytes,
        case when wire.start_ns is not null then coalesce(wire.rtts, 0) end as wire_rtts,
        wire.rtt_min_ns as wire_rtt_min_ns,
        wire.rtt_mean_ns as wire_rtt_mean_ns,
        wire.rtt_p99_ns as wire_rtt_p99_ns,
        bases.base_ns as path_rtt_min_ns,
        wire.rtt_mean_ns - bases.base_ns as queue_mean_ns,
        wire.rtt_p99_ns - bases.base_ns as queue_p99_ns,
        wire.flight_max_bytes as wire_flight_max_bytes,
        wire.flight_p95_bytes as wire_flight_p95_bytes,
        c.window_bytes,
        c.samples,
        c.busy_samples,
        c.send_buffer_bytes
    from chosen as c
    left join wire
        on c.cell_id = wire.cell_id and c.run = wire.run and c.flow = wire.flow and c.stream = wire.stream
    left join bases
        on c.cell_id = bases.cell_id and c.run = bases.run and c.flow = bases.flow and c.stream = bases.stream
    window runs as (partition by c.cell_id, c.run)
),

checked as (
    select
        * replace (coalesce(send_buffer_bytes, $send_buffer) as send_buffer_bytes),
        -- null if a larger window was advertised after the last sample
        case when wire_flight_max_bytes <= window_bytes then wire_flight_p95_bytes >= $full_window * window_bytes end
            as window_limited
    from joined
),

-- The runner uses the busy time in TCP_INFO to flag a run whose sender waited for a window. Without this time, only the
-- wire shows it.
final as (
    select
        *,
        case
            when window_limited is not null or busy_samples > 0 then null
            when samples = 0 then 'no samples of TCP_INFO'
            when wire_flight_p95_bytes is null then 'no busy time in TCP_INFO, and no capture'
            when window_bytes is null then 'neither busy time nor window in TCP_INFO'
            else 'no busy time in TCP_INFO, and the window grew after the last sample'
        end as window_unknown
    from checked
)

select * from final
