-- One row per combination of settings with a run of bbr or cubic: their means side by side, and the gain
-- 100 (BBR - CUBIC) / BBR.
with

bbr as (
    select * from transfer_settings
    where algorithm = 'bbr'
),

cubic as (
    select * from transfer_settings
    where algorithm = 'cubic'
),

paired as (
    select
        coalesce(bbr.setting, cubic.setting) as setting,
        coalesce(bbr.mode, cubic.mode) as mode,
        coalesce(bbr.topology, cubic.topology) as topology,
        coalesce(bbr.delay_ns, cubic.delay_ns) as delay_ns,
        coalesce(bbr.buffer_bytes, cubic.buffer_bytes) as buffer_bytes,
        coalesce(bbr.rate_bps, cubic.rate_bps) as rate_bps,
        coalesce(bbr.streams, cubic.streams) as streams,
        coalesce(bbr.size_bytes, cubic.size_bytes) as size_bytes,
        coalesce(bbr.ratio, cubic.ratio) as ratio,
        coalesce(bbr.delay_on, cubic.delay_on) as delay_on,
        coalesce(bbr.loss_percent, cubic.loss_percent) as loss_percent,
        coalesce(bbr.reorder_percent, cubic.reorder_percent) as reorder_percent,
        coalesce(bbr.runs, 0) as bbr_runs,
        coalesce(cubic.runs, 0) as cubic_runs,
        coalesce(bbr.runs_flagged, 0) + coalesce(cubic.runs_flagged, 0) > 0 as flagged,
        case
            when bbr.buffer_bdp is null then cubic.buffer_bdp
            when cubic.buffer_bdp is null then bbr.buffer_bdp
            else (bbr.buffer_bdp + cubic.buffer_bdp) / 2
        end as buffer_bdp,
        bbr.throughput_bps_mean as bbr_throughput_bps,
        bbr.throughput_bps_low as bbr_low,
        bbr.throughput_bps_high as bbr_high,
        cubic.throughput_bps_mean as cubic_throughput_bps,
        cubic.throughput_bps_low as cubic_low,
        cubic.throughput_bps_high as cubic_high,
        bbr.completion_ns_mean as bbr_completion_ns,
        cubic.completion_ns_mean as cubic_completion_ns,
        coalesce(bbr.completion_source, cubic.completion_source) as completion_source,
        cubic.completion_ns_mean - bbr.completion_ns_mean as difference_ns,
        cubic.iperf3_completion_ns_mean - bbr.iperf3_completion_ns_mean as iperf3_difference_ns,
        (cubic.completion_ns_low - bbr.completion_ns_high)::double as difference_low_ns,
        (cubic.completion_ns_high - bbr.completion_ns_low)::double as difference_high_ns,
        bbr.retransmits_mean as bbr_retransmits,
        cubic.retransmits_mean as cubic_retransmits,
        bbr.retransmits_mean / nullif(cubic.retransmits_mean, 0) as retransmits_ratio,
        bbr.per_stream_bps_mean as bbr_per_stream_bps,
        cubic.per_stream_bps_mean as cubic_per_stream_bps
    from bbr
    full outer join cubic on bbr.setting = cubic.setting
),

final as (
    select
        *,
        100 * (bbr_throughput_bps - cubic_throughput_bps) / nullif(bbr_throughput_bps, 0) as gain_percent,
        100 * (bbr_low - cubic_high) / nullif(bbr_low, 0)::double as gain_low,
        100 * (bbr_high - cubic_low) / nullif(bbr_high, 0)::double as gain_high,
        case
            when bbr_throughput_bps is null then 'bbr_missing'
            when cubic_throughput_bps is null then 'cubic_missing'
            when bbr_throughput_bps = 0 and cubic_throughput_bps = 0 then 'both_zero'
            when bbr_throughput_bps = 0 then 'bbr_zero'
            when cubic_throughput_bps = 0 then 'cubic_zero'
            when bbr_throughput_bps > cubic_throughput_bps then 'faster_bbr'
            when bbr_throughput_bps < cubic_throughput_bps then 'faster_cubic'
            else 'equal'
        end as comparison
    from paired
)

select * from final
