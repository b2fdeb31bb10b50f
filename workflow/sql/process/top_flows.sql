-- One row per site and rank up to $top: the largest stitched flows; for all sites, as observed at their largest site.
with

site_flows as (
    select * from site_flows
),

campaign_flows as (
    select * from campaign_flows
),

candidates as (
    select
        site,
        site as largest_site,
        * exclude (site)
    from site_flows
    union all by name
    select
        'all' as site,
        *
    from campaign_flows
),

-- Only the largest flows are ranked, because a window function sorts all columns.
positions as (
    select
        site,
        wire_bytes,
        row_number() over (partition by site order by wire_bytes desc) as place
    from candidates
),

smallest as (
    select
        site,
        min(wire_bytes) as wire_bytes
    from positions
    where place <= $top
    group by site
),

ranked as (
    select
        c.*,
        (
            row_number() over (
                partition by c.site order by c.wire_bytes desc, c.flow_id asc, c.largest_site asc
            )
        )::uinteger as rank
    from candidates as c
    inner join smallest as l on c.site = l.site and c.wire_bytes >= l.wire_bytes
),

final as (
    select * from ranked
    where rank <= $top
)

select * from final
