-- One row per stream in a capture and compared quantity. A cause explains a difference if the values agree within
-- $threshold after it has been accounted for.
with

measured as (
    select
        flows.*,
        raw_wire.data_frames,
        flows.completion_ns - flows.wire_duration_ns as later_ns,
        flows.wire_duration_ns / nullif(flows.wire_bytes, 0)::double as ns_per_byte,
        coalesce(flows.wire_start_up_ns, 0) as start_up_ns,
        -- With a ratio, one link has a multiple of the rate.
        greatest(
            raw_cells.measured_rate_bps,
            raw_cells.rate_at_least_bps,
            raw_cells.rate_bps,
            raw_cells.rate_bps * raw_cells.ratio,
            flows.wire_throughput_bps
        ) as largest_bps
    from transfer_flows as flows
    inner join raw_cells on flows.cell_id = raw_cells.cell_id and flows.run = raw_cells.run
    inner join raw_wire
        on
            flows.cell_id = raw_wire.cell_id
            and flows.run = raw_wire.run
            and flows.flow = raw_wire.flow
            and flows.stream = raw_wire.stream
    where flows.wire_bytes is not null
),

-- Bytes that the capture lacks: missing sequence numbers, and the end of a capture without FIN or RST. After the last
-- frame, at most as many bytes were sent as fit into the time until iperf3 stopped.
lost as (
    select
        *,
        greatest(
            wire_missing_bytes,
            case
                when wire_cut
                    then least(bytes - wire_bytes, greatest(later_ns, 0) * coalesce(largest_bps, 0) / 8e9)
                else 0
            end
        ) as lost_bytes
    from measured
),

bounded as (
    select
        *,
        $threshold * wire_duration_ns as tolerance_ns,
        -- The receiver stops before the bytes in the sender's socket buffer arrive: their time on the wire, and a
        -- round trip, because the wire ends with the acknowledgment of the last byte.
        case
            when wire_bytes > bytes and (sent_bytes is null or wire_bytes <= sent_bytes * (1 + $threshold))
                then (wire_bytes - bytes) * ns_per_byte + coalesce(wire_rtt_p99_ns, 0)
        end as buffered_ns,
        lost_bytes * ns_per_byte as lost_ns,
        ceil(lost_bytes * data_frames / nullif(wire_bytes + wire_retransmitted_bytes, 0)::double) as lost_segments
    from lost
),

flows as (
    select
        *,
        -- Whether bytes with headers, or those that the capture lost, explain the bytes of iperf3.
        abs(bytes - wire_ip_bytes) <= $threshold * wire_ip_bytes
        or abs(bytes - wire_frame_bytes) <= $threshold * wire_frame_bytes as with_headers,
        lost_bytes > 0
        and abs(bytes - wire_bytes - lost_bytes)
        <= $threshold * (wire_bytes + lost_bytes) as with_lost,
        abs(bytes - wire_bytes) > $threshold * wire_bytes as bytes_differ,
        -- iperf3's time begins before the first payload or ends after the last acknowledgment, at most by the start-up.
        later_ns between 0 and start_up_ns + tolerance_ns as starts_earlier,
        later_ns between -tolerance_ns and start_up_ns + tolerance_ns as time_agrees,
        later_ns between -(buffered_ns + tolerance_ns) and start_up_ns + tolerance_ns as stops_early,
        lost_bytes > 0
        and later_ns between -tolerance_ns and lost_ns + start_up_ns + tolerance_ns as capture_shorter
    from bounded
),

sent as (
    select
        cell_id,
        run,
        flow,
        stream,
        'sent' as quantity,
        sent_bytes as iperf3_value,
        wire_bytes as wire_value,
        case
            when
                wire_missing_bytes > 0
                and abs(sent_bytes - wire_bytes - wire_missing_bytes)
                <= $threshold * (wire_bytes + wire_missing_bytes)
                then 'capture_loss'
            when
                sent_bytes > wire_bytes
                and received_bytes <= wire_bytes * (1 + $threshold)
                and sent_bytes - wire_bytes <= send_buffer_bytes + $threshold * wire_bytes
                then 'send_buffer'
            when
                abs(sent_bytes - wire_ip_bytes) <= $threshold * wire_ip_bytes
                or abs(sent_bytes - wire_frame_bytes) <= $threshold * wire_frame_bytes
                then 'headers'
            when
                sent_bytes > wire_bytes
                and wire_cut
                and with_lost
                and sent_bytes - wire_bytes - lost_bytes <= send_buffer_bytes + $threshold * wire_bytes
                then 'capture_loss'
            else 'unexplained'
        end as cause
    from flows
),

completion as (
    select
        cell_id,
        run,
        flow,
        stream,
        'completion' as quantity,
        completion_ns as iperf3_value,
        wire_duration_ns as wire_value,
        case
            when starts_earlier then 'start_up'
            when later_ns < 0 and stops_early then 'send_buffer'
            when capture_shorter then 'capture_loss'
            else 'unexplained'
        end as cause
    from flows
),

throughput as (
    select
        cell_id,
        run,
        flow,
        stream,
        'throughput' as quantity,
        throughput_bps as iperf3_value,
        wire_throughput_bps as wire_value,
        case
            when bytes_differ and with_lost and capture_shorter then 'capture_loss'
            when bytes_differ and with_headers and time_agrees then 'headers'
            when starts_earlier and not bytes_differ then 'start_up'
            when stops_early then 'send_buffer'
            else 'unexplained'
        end as cause
    from flows
),

retransmitted as (
    select
        cell_id,
        run,
        flow,
        stream,
        'retransmits' as quantity,
        retransmits as iperf3_value,
        wire_retransmits as wire_value,
        case
            when
                abs(retransmits - wire_retransmits + wire_retransmits_late)
                <= $threshold * (wire_retransmits - wire_retransmits_late)
                then 'after_end'
            when
                retransmits > wire_retransmits - wire_retransmits_late
                and retransmits <= (wire_retransmits + lost_segments) * (1 + $threshold)
                then 'capture_loss'
            else 'unexplained'
        end as cause
    from flows
),

all_quantities as (
    select * from sent
    union all
    select * from completion
    union all
    select * from throughput
    union all
    select * from retransmitted
),

compared as (
    select
        *,
        (iperf3_value - wire_value) / nullif(wire_value, 0)::double as difference,
        abs(iperf3_value - wire_value) > $threshold * wire_value as flagged
    from all_quantities
    where iperf3_value is not null and wire_value is not null
),

final as (
    select
        cell_id,
        run,
        flow,
        stream,
        quantity,
        iperf3_value,
        wire_value,
        difference,
        flagged,
        case when flagged then cause end as cause
    from compared
)

select * from final
