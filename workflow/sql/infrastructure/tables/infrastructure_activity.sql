-- One row per site with samples, in order of activity: the mean over time of the sum of the rates of its ports.
with

bins as (
    select
        site,
        bin,
        sum(in_rate + out_rate) as rate
    from port_samples
    where in_rate is not null
    group by site, bin
),

sites as (
    select
        site,
        count(*) as bins,
        avg(rate) as rate,
        max(rate) as rate_max
    from bins
    group by site
),

ports as (
    select
        site,
        count(*) as ports,
        count(*) filter (where in_bps_max + out_bps_max > 0) as active_ports,
        max(utilization_max) as utilization_max
    from infrastructure_port_use
    where samples > 0
    group by site
),

final as (
    select
        row_number() over (order by sites.rate desc, sites.site asc) as rank,
        sites.site,
        ports.ports,
        ports.active_ports,
        sites.bins,
        8 * sites.rate as mean_bps,
        8 * sites.rate_max as max_bps,
        sites.rate / nullif(sum(sites.rate) over (), 0) as share,
        ports.utilization_max
    from sites
    inner join ports on sites.site = ports.site
)

select * from final
