-- One row: the quantities of the study that the paper states, and the numbers of slices, ports and sites from which
-- they are calculated.
with

slices as (
    select
        count(*) filter (where end_ns > start_ns) as timed,
        count(*) filter (where end_ns > start_ns and end_ns - start_ns <= 86400000000000) as within_day,
        count(*) as slices
    from raw_slices
),

with_sites as (
    select
        coalesce(sum(slices), 0)::bigint as slices,
        coalesce(sum(slices) filter (where sites = 1), 0)::bigint as single
    from infrastructure_slice_sites
),

simultaneous as (
    select
        sum(slices::hugeint * (to_ns - from_ns)) / sum(to_ns - from_ns) as mean,
        sum(slices::hugeint * slices * (to_ns - from_ns)) / sum(to_ns - from_ns) as mean_of_squares,
        max(slices) as highest
    from slice_steps
),

ports as (
    select
        count(utilization_max) as known,
        median(utilization_max) as median_of_max,
        median(utilization_mean) as median_of_mean,
        count(*) filter (where utilization_max <= $low_share) as low,
        count(*) filter (where line_rate) as line_rate
    from infrastructure_port_use
),

links as (
    select
        count(*) as sites,
        median(uplinks) as uplinks,
        median(downlinks) as downlinks,
        sum(uplinks) filter (where downlinks is not null) as uplinks_compared,
        sum(downlinks) as downlinks_compared,
        count(downlinks) as compared,
        count(*) filter (where downlinks > uplinks) as more_downlinks
    from infrastructure_ports
),

weeks as (
    select
        max(mean_bps) as peak,
        count(mean_bps) as known
    from infrastructure_weeks
),

deviation as (
    select if(mean_of_squares > mean * mean, sqrt(mean_of_squares - mean * mean), 0 * mean) as stddev
    from simultaneous
),

final as (
    select
        slices.slices,
        slices.timed as slices_with_duration,
        with_sites.slices as slices_with_sites,
        with_sites.single / nullif(with_sites.slices, 0) as single_site_share,
        1 - with_sites.single / nullif(with_sites.slices, 0) as several_sites_share,
        slices.within_day / nullif(slices.timed, 0) as within_24_h_share,
        simultaneous.mean as simultaneous_mean,
        deviation.stddev as simultaneous_stddev,
        simultaneous.highest as simultaneous_max,
        weeks.known as weeks,
        weeks.peak as peak_week_mean_bps,
        ports.known as ports,
        ports.median_of_max as utilization_max_median,
        ports.median_of_mean as utilization_mean_median,
        ports.low as low_ports,
        ports.line_rate as line_rate_ports,
        links.sites,
        links.compared as sites_with_downlinks,
        links.more_downlinks as sites_with_more_downlinks,
        links.uplinks as uplinks_median,
        links.downlinks as downlinks_median,
        links.downlinks_compared / nullif(links.uplinks_compared, 0) as downlinks_per_uplink
    from slices
    cross join with_sites
    cross join simultaneous
    cross join deviation
    cross join weeks
    cross join ports
    cross join links
)

select * from final
