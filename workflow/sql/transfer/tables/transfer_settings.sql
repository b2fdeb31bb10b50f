-- One row per combination of settings and algorithm: mean and spread of the complete runs. Completion times and first
-- ends of all algorithms of the same settings have the same source, because iperf3 stops before all requested bytes
-- have arrived.
with

sources as (
    select
        *,
        error is null as complete,
        if(
            bool_and(completion_source = 'wire') filter (where error is null) over settings, 'wire', 'iperf3'
        ) as common_source
    from transfer_cells
    window settings as (partition by setting)
),

cells as (
    select
        * replace (
            coalesce(algorithm, 'unknown') as algorithm,
            if(common_source = 'wire', completion_ns, iperf3_completion_ns) as completion_ns,
            common_source as completion_source
        ),
        1
        - if(common_source = 'wire', first_end_ns, iperf3_first_end_ns)
        / nullif(if(common_source = 'wire', completion_ns, iperf3_completion_ns), 0) as ends_apart
    from sources
),

streams as (
    select
        cells.setting,
        cells.algorithm,
        min(flows.throughput_bps)::double as low,
        max(flows.throughput_bps)::double as high
    from cells
    inner join transfer_flows as flows on cells.cell_id = flows.cell_id and cells.run = flows.run
    where cells.complete
    group by cells.setting, cells.algorithm
),

flagged as (
    select
        setting,
        algorithm,
        string_agg(distinct flag, ' ' order by flag) as flags
    from (
        select
            setting,
            algorithm,
            unnest(string_split(flags, ' ')) as flag
        from cells
        where complete and flags <> ''
    ) as single
    group by setting, algorithm
),

grouped as (
    select
        setting,
        algorithm,
        any_value(mode) as mode,
        any_value(topology) as topology,
        any_value(delay_ns) as delay_ns,
        any_value(buffer_bytes) as buffer_bytes,
        any_value(rate_bps) as rate_bps,
        any_value(streams) as streams,
        any_value(size_bytes) as size_bytes,
        any_value(ratio) as ratio,
        any_value(delay_on) as delay_on,
        any_value(loss_percent) as loss_percent,
        any_value(reorder_percent) as reorder_percent,
        count(*) filter (where complete) as runs,
        count(*) filter (where not complete) as runs_failed,
        count(*) filter (where complete and trim(replace(flags, 'window_unknown', '')) <> '') as runs_flagged,
        count(*) filter (where complete and window_limited is null) as runs_window_unknown,
        avg(measured_rtt_ns) as rtt_ns,
        avg(buffer_bdp order by buffer_bdp) as buffer_bdp,
        avg(throughput_bps) filter (where complete) as throughput_bps_mean,
        min(throughput_bps) filter (where complete) as throughput_bps_low,
        max(throughput_bps) filter (where complete) as throughput_bps_high,
        stddev_samp(throughput_bps order by throughput_bps) filter (where complete) as throughput_bps_stddev,
        avg(completion_ns) filter (where complete) as completion_ns_mean,
        min(completion_ns) filter (where complete) as completion_ns_low,
        max(completion_ns) filter (where complete) as completion_ns_high,
        any_value(completion_source) filter (where complete) as completion_source,
        avg(iperf3_completion_ns) filter (where complete) as iperf3_completion_ns_mean,
        stddev_samp(completion_ns order by completion_ns) filter (where complete) as completion_ns_stddev,
        avg(retransmits) filter (where complete) as retransmits_mean,
        min(retransmits) filter (where complete) as retransmits_low,
        max(retransmits) filter (where complete) as retransmits_high,
        stddev_samp(retransmits order by retransmits) filter (where complete) as retransmits_stddev,
        avg(throughput_bps / flows order by throughput_bps / flows) filter (where complete) as per_stream_bps_mean,
        avg(jain order by jain) filter (where complete) as jain_mean,
        min(jain) filter (where complete) as jain_low,
        max(jain) filter (where complete) as jain_high,
        avg(ends_apart order by ends_apart) filter (where complete) as ends_apart_mean,
        min(ends_apart) filter (where complete) as ends_apart_low,
        max(ends_apart) filter (where complete) as ends_apart_high,
        avg(queue_mean_ns) filter (where complete) as queue_mean_ns,
        avg(wire_retransmits) filter (where complete) as wire_retransmits_mean,
        avg(wire_throughput_bps) filter (where complete) as wire_throughput_bps_mean
    from cells
    group by setting, algorithm
),

final as (
    select
        grouped.*,
        coalesce(flagged.flags, '') as flags,
        streams.low as per_stream_bps_low,
        streams.high as per_stream_bps_high
    from grouped
    left join streams on grouped.setting = streams.setting and grouped.algorithm = streams.algorithm
    left join flagged on grouped.setting = flagged.setting and grouped.algorithm = flagged.algorithm
)

select * from final
