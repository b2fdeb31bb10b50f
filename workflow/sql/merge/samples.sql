-- One row per digested sample, with the names for tables. directory is its original name.
with

samples as (
    select
        sample as directory,
        * exclude (
            -- a filter can contain addresses
            sample, site, port, acap, campaign, file, filter, instance, notes, digest_site, digest_port, environment
        ) replace (
            case when not $pseudonyms then restriction_detail end as restriction_detail
        )
    from catalog.samples
    where acap is not null
),

names as (
    select * from names
),

final as (
    select
        n.sample,
        n.site,
        n.port,
        s.*
    from samples as s
    inner join names as n on s.directory = n.directory
    order by n.sample
)

select * from final
