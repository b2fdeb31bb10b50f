-- One row per algorithm, of bbr and cubic: medians over the settings with a buffer below $shallow_bdp
-- bandwidth-delay products and complete runs of both algorithms. All values are measured on the wire, as means of the
-- captured runs. Rates of links include headers, values of the wire do not: $frame_share is the ratio of a full frame
-- to its payload.
with

compared as (
    select setting
    from transfer_gain
    where buffer_bdp < $shallow_bdp and (gain_percent is not null or comparison = 'bbr_zero')
),

sums as (
    select
        flows.cell_id,
        flows.run,
        sum(raw.data_frames) as data_frames,
        sum(flows.wire_retransmits) as retransmits,
        sum(flows.wire_flight_p95_bytes) as flight_bytes,
        count(*) = count(flows.wire_bytes) as captured
    from transfer_flows as flows
    left join raw_wire as raw
        on
            flows.cell_id = raw.cell_id
            and flows.run = raw.run
            and flows.flow = raw.flow
            and flows.stream = raw.stream
    group by flows.cell_id, flows.run
),

runs as (
    select
        cells.setting,
        cells.algorithm,
        cells.wire_throughput_bps / nullif(cells.bottleneck_bps, 0)::double as rate_share,
        sums.retransmits / nullif(sums.data_frames, 0)::double as retransmitted_share,
        8e9 * sums.flight_bytes
        / nullif(cells.bottleneck_bps::double * cells.measured_rtt_ns, 0) as flight_bdp,
        cells.queue_mean_ns,
        sums.retransmits,
        coalesce(sums.captured, false) as captured,
        cells.window_limited
    from transfer_cells as cells
    inner join compared on cells.setting = compared.setting
    left join sums on cells.cell_id = sums.cell_id and cells.run = sums.run
    where cells.error is null and cells.algorithm in ('bbr', 'cubic')
),

settings as (
    select
        setting,
        algorithm,
        $frame_share * avg(rate_share order by rate_share) filter (where captured) as rate_share,
        avg(retransmitted_share order by retransmitted_share) filter (where captured) as retransmitted_share,
        $frame_share * avg(flight_bdp order by flight_bdp) filter (where captured) as flight_bdp,
        avg(queue_mean_ns) filter (where captured) as queue_ns,
        avg(retransmits) filter (where captured) as retransmits,
        bool_or(captured) as captured,
        coalesce(bool_or(window_limited), false) as window_limited,
        count(window_limited) < count(*) as window_unknown
    from runs
    group by setting, algorithm
),

final as (
    select
        algorithm,
        count(*)::uinteger as settings,
        count(*) filter (where captured)::uinteger as settings_captured,
        count(*) filter (where window_limited)::uinteger as settings_window_limited,
        count(*) filter (where window_unknown and not window_limited)::uinteger as settings_window_unknown,
        median(rate_share) as rate_share,
        median(retransmits)::double as wire_retransmits,
        median(retransmitted_share) as wire_retransmitted_share,
        median(flight_bdp) as wire_flight_bdp,
        median(queue_ns)::double as queue_ns
    from settings
    group by algorithm
)

select * from final
