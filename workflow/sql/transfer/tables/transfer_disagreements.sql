-- One row per stream in a capture and compared quantity. A cause explains a difference if the values agree within
-- $threshold after it has been accounted for.
with

flows as (
    select
        *,
        -- Whether bytes with headers, or those that the capture lost, explain the bytes of iperf3.
        abs(bytes - wire_ip_bytes) <= $threshold * wire_ip_bytes
        or abs(bytes - wire_frame_bytes) <= $threshold * wire_frame_bytes as with_headers,
        wire_missing_bytes > 0
        and abs(bytes - wire_bytes - wire_missing_bytes)
        <= $threshold * (wire_bytes + wire_missing_bytes) as with_missing,
        abs(bytes - wire_bytes) > $threshold * wire_bytes as bytes_differ,
        abs(completion_ns - wire_completion_ns) > $threshold * wire_completion_ns as times_differ,
        -- iperf3's time begins before the first payload or ends after the last acknowledgment, at most by the start-up.
        completion_ns - wire_completion_ns between 0
        and coalesce(wire_start_up_ns, 0) + $threshold * wire_completion_ns as starts_earlier,
        -- The receiver stops before the bytes in the sender's socket buffer arrive.
        wire_bytes >= bytes and (sent_bytes is null or sent_bytes > bytes or wire_bytes <= sent_bytes) as stops_early
    from transfer_flows
    where wire_bytes is not null
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
            when sent_bytes > wire_bytes and received_bytes <= wire_bytes * (1 + $threshold) then 'send_buffer'
            when
                abs(sent_bytes - wire_ip_bytes) <= $threshold * wire_ip_bytes
                or abs(sent_bytes - wire_frame_bytes) <= $threshold * wire_frame_bytes
                then 'headers'
            when sent_bytes > wire_bytes and wire_cut then 'capture_loss'
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
        wire_completion_ns as wire_value,
        case
            when starts_earlier then 'start_up'
            when completion_ns < wire_completion_ns and stops_early then 'send_buffer'
            when wire_missing_bytes > 0 or wire_cut then 'capture_loss'
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
            when bytes_differ and (with_missing or (wire_cut and bytes > wire_bytes)) then 'capture_loss'
            when bytes_differ and with_headers then 'headers'
            when starts_earlier and (not bytes_differ or throughput_bps < wire_throughput_bps) then 'start_up'
            when stops_early and (bytes_differ or completion_ns < wire_completion_ns) then 'send_buffer'
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
            when wire_missing_bytes > 0 or wire_cut then 'capture_loss'
            else 'unexplained'
        end as cause
    from flows
),

every as (
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
    from every
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
