-- One row per site: its switch ports to other sites (uplinks) and to servers (downlinks), from the information model.
with

ports as (
    select
        site,
        port,
        bool_or(kind = 'uplink') as uplink,
        max(rate_bps) as rate_bps,
        list(distinct far_site) filter (where far_site is not null) as far_sites,
        count(*) as interfaces
    from raw_ports
    group by site, port
),

counted as (
    select
        site,
        count(*) filter (where uplink) as uplinks,
        count(*) filter (where not uplink) as downlinks,
        sum(interfaces) filter (where uplink) as interfaces,
        sum(rate_bps) filter (where uplink) as uplink_bps,
        len(list_distinct(flatten(list(far_sites)))) as neighbors
    from ports
    group by site
),

nics as (
    select
        site,
        sum(ports) as ports
    from raw_nics
    group by site
),

final as (
    select
        sites.site,
        coalesce(counted.uplinks, 0) as uplinks,
        if(counted.downlinks > 0, counted.downlinks, nics.ports) as downlinks,
        case
            when counted.downlinks > 0 then 'ports'
            when nics.ports is not null then 'nics'
            else 'unknown'
        end as downlinks_from,
        coalesce(counted.interfaces, 0) as interfaces,
        coalesce(counted.neighbors, 0) as neighbors,
        coalesce(counted.uplink_bps, 0) as uplink_bps
    from raw_sites as sites
    left join counted on sites.site = counted.site
    left join nics on sites.site = nics.site
)

select * from final
