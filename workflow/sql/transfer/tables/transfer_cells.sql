-- One row per cell and run: sums over its streams. Settings are numbered in the order of their values; the algorithm is
-- not part of a setting.
with

raw as (
    select * from raw_cells
),

flows as (
    select * from transfer_flows
),

disagreements as (
    select
        cell_id,
        run,
        count(*) filter (where flagged) as disagreements,
        count(*) filter (where cause = 'unexplained') as unexplained
    from transfer_disagreements
    group by cell_id, run
),

numbered as (
    select
        *,
        dense_rank() over (
            order by
                mode nulls first,
                topology nulls first,
                delay_on nulls first,
                loss_percent nulls first,
                reorder_percent nulls first,
                ratio nulls first,
                rate_bps nulls first,
                size_bytes nulls first,
                streams nulls first,
                delay_ns nulls first,
                buffer_bytes nulls first
        ) as setting
    from raw
),

-- A probe that was too slow to fill the queue measured a rate and a queue that are possibly too small.
bottlenecks as (
    select
        cell_id,
        run,
        case
            when rate_at_least_bps is null then coalesce(measured_rate_bps, rate_bps)
            else greatest(rate_bps, rate_at_least_bps)
        end as bottleneck_bps,
        case
            when rate_at_least_bps is null then coalesce(measured_buffer_bytes, buffer_bytes)
            else coalesce(buffer_bytes, measured_buffer_bytes)
        end as queue_bytes
    from raw
),

summed as (
    select
        cell_id,
        run,
        count(*) as flows,
        sum(bytes)::bigint as bytes,
        bool_and(end_of_wire) as end_of_wire,
        case when count(end_ns) = count(*) then max(end_ns) end as completion_ns,
        case when count(end_ns) = count(*) then min(end_ns) end as first_end_ns,
        case
            when count(offset_ns + completion_ns) = count(*) then max(offset_ns + completion_ns)
        end as iperf3_completion_ns,
        case when count(offset_ns + completion_ns) = count(*) then min(offset_ns + completion_ns) end
            as iperf3_first_end_ns,
        count(offset_ns) < count(*) as starts_unknown,
        case when count(offset_error_ns) = count(*) then max(offset_error_ns) end as offset_error_ns,
        case when count(retransmits) = count(*) then sum(retransmits)::bigint end as retransmits,
        min(rtt_min_ns) as rtt_min_ns,
        round(avg(rtt_mean_ns))::bigint as rtt_mean_ns,
        case
            when count(throughput_bps) = count(*) and sum(throughput_bps) > 0
                then
                    fsum(throughput_bps::double) ** 2
                    / (count(*) * fsum(throughput_bps::double ** 2))
        end as jain,
        case when count(wire_bytes) = count(*) then sum(wire_bytes)::bigint end as wire_bytes,
        max(wire_done_ns) - min(wire_start_ns) as wire_completion_ns,
        max(wire_end_ns) - min(wire_start_ns) as wire_duration_ns,
        sum(wire_retransmits)::bigint as wire_retransmits,
        min(wire_rtt_min_ns) as wire_rtt_min_ns,
        (sum(wire_rtt_mean_ns::hugeint * wire_rtts) // nullif(sum(wire_rtts), 0))::bigint as wire_rtt_mean_ns,
        (sum(queue_mean_ns::hugeint * wire_rtts) // nullif(sum(wire_rtts), 0))::bigint as queue_mean_ns,
        max(queue_p99_ns) as queue_p99_ns,
        bool_or(window_limited) as window_limited,
        string_agg(distinct window_unknown, '; ' order by window_unknown) as window_unknown
    from flows
    group by cell_id, run
),

runs as (
    select
        *,
        completion_ns is not null and coalesce(offset_error_ns > $threshold * completion_ns, true) as start_error
    from summed
),

-- null: unknown, for the reason in window_unknown
windows as (
    select
        numbered.cell_id,
        numbered.run,
        case
            when list_contains(numbered.flags, 'window_limited') or summed.window_limited then true
            when summed.cell_id is not null and summed.window_unknown is null then false
        end as window_limited,
        coalesce(summed.window_unknown, if(summed.cell_id is null, 'no results', null)) as reason
    from numbered
    left join summed on numbered.cell_id = summed.cell_id and numbered.run = summed.run
),

final as (
    select
        n.cell_id,
        n.run,
        n.setting::uinteger as setting,
        n.mode,
        n.topology,
        n.algorithm,
        n.delay_ns,
        n.buffer_bytes,
        n.rate_bps,
        n.streams,
        n.size_bytes,
        n.ratio,
        n.delay_on,
        n.loss_percent,
        n.reorder_percent,
        n.measured_rtt_ns,
        n.measured_rate_bps,
        n.rate_at_least_bps,
        n.measured_buffer_bytes,
        n.frames_over_mtu,
        n.background_bps,
        b.bottleneck_bps,
        8e9 * b.queue_bytes / nullif(b.bottleneck_bps::double * n.measured_rtt_ns, 0) as buffer_bdp,
        coalesce(s.flows, 0)::uinteger as flows,
        s.bytes,
        s.completion_ns,
        case when s.completion_ns is not null then if(s.end_of_wire, 'wire', 'iperf3') end as completion_source,
        s.iperf3_completion_ns,
        (8000000000 * s.bytes::hugeint // nullif(s.iperf3_completion_ns, 0))::bigint as throughput_bps,
        s.retransmits,
        s.rtt_min_ns,
        s.rtt_mean_ns,
        s.jain,
        s.first_end_ns,
        s.iperf3_first_end_ns,
        s.wire_bytes,
        case when s.end_of_wire then s.wire_completion_ns end as wire_completion_ns,
        case when s.wire_bytes is not null then s.wire_duration_ns end as wire_duration_ns,
        case
            when s.wire_bytes is not null
                then (8000000000 * s.wire_bytes::hugeint // nullif(s.wire_duration_ns, 0))::bigint
        end as wire_throughput_bps,
        case when s.wire_bytes is not null then s.wire_retransmits end as wire_retransmits,
        case when s.wire_bytes is not null then s.wire_rtt_min_ns end as wire_rtt_min_ns,
        case when s.wire_bytes is not null then s.wire_rtt_mean_ns end as wire_rtt_mean_ns,
        case when s.wire_bytes is not null then s.queue_mean_ns end as queue_mean_ns,
        case when s.wire_bytes is not null then s.queue_p99_ns end as queue_p99_ns,
        w.window_limited,
        case when w.window_limited is null then w.reason end as window_unknown,
        coalesce(d.disagreements, 0)::uinteger as disagreements,
        coalesce(d.unexplained, 0)::uinteger as unexplained,
        array_to_string(
            list_sort(
                list_distinct(
                    list_concat(
                        n.flags,
                        case when d.unexplained > 0 then ['unexplained'] else []::varchar[] end,
                        case when s.start_error then ['start_error'] else []::varchar[] end,
                        case when w.window_limited then ['window_limited'] else []::varchar[] end,
                        case when w.window_limited is null then ['window_unknown'] else []::varchar[] end
                    )
                )
            ),
            ' '
        ) as flags,
        coalesce(
            n.error,
            case
                when s.starts_unknown then 'the starts of its iperf3 processes are not known'
                when s.iperf3_completion_ns is null then 'iperf3 reported no duration'
            end
        ) as error,
        n.iperf3_version,
        n.kernel,
        n.bbr_version
    from numbered as n
    inner join bottlenecks as b on n.cell_id = b.cell_id and n.run = b.run
    left join runs as s on n.cell_id = s.cell_id and n.run = s.run
    inner join windows as w on n.cell_id = w.cell_id and n.run = w.run
    left join disagreements as d on n.cell_id = d.cell_id and n.run = d.run
)

select * from final
