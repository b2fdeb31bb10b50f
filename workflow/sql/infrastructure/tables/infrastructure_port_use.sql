-- One row per port with counters: its rates, and its utilization in the busier direction of each sample.
with

kinds as (
    select
        site,
        port,
        if(bool_or(kind = 'uplink'), 'uplink', 'downlink') as kind
    from raw_ports
    group by site, port
),

ports as (
    select
        site,
        port,
        max(rate_bps) as rate_bps,
        count(in_rate) as samples,
        count(*) filter (where gap) as gaps,
        count(*) filter (where reset) as resets,
        8 * avg(in_rate) as in_bps_mean,
        8 * avg(out_rate) as out_bps_mean,
        8 * max(in_rate) as in_bps_max,
        8 * max(out_rate) as out_bps_max,
        8 * avg(greatest(in_rate, out_rate)) as busier_bps_mean
    from port_samples
    group by site, port
),

final as (
    select
        ports.*,
        coalesce(kinds.kind, 'unknown') as kind,
        ports.busier_bps_mean / ports.rate_bps as utilization_mean,
        greatest(ports.in_bps_max, ports.out_bps_max) / ports.rate_bps as utilization_max,
        greatest(ports.in_bps_max, ports.out_bps_max) >= $line_rate_share * ports.rate_bps as line_rate
    from ports
    left join kinds on ports.site = kinds.site and ports.port = kinds.port
)

select * from final
