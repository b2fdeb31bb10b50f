-- One row per scope, site, measure and threshold: the complementary distribution of flow sizes.
with

distributions as (
    select * from distributions
    where measure in ('wire', 'ip', 'payload')
),

totals as (
    select * from totals
),

final as (
    select
        d.scope,
        d.site,
        d.measure,
        d.threshold as bytes,
        d.flows_ge,
        d.flows,
        d.flows_ge / d.flows as ccdf,
        t.samples
    from distributions as d
    inner join totals as t on d.site = t.site
)

select * from final
