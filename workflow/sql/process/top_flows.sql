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

ranked as (
    select
        *,
        (
            row_number() over (
                partition by site order by wire_bytes desc, flow_id asc, largest_site asc
            )
        )::uinteger as rank
    from candidates
),

final as (
    select * from ranked
    where rank <= $top
)

select * from final
