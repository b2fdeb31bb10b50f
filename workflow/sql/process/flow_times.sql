-- One row per scope, site, measure and threshold: the complementary distributions of durations and rates.
with

distributions as (
    select * from distributions
    where measure in ('duration_ns', 'rate_bps')
),

totals as (
    select * from totals
),

final as (
    select
        d.scope,
        d.site,
        d.measure,
        d.threshold as value,
        d.flows_ge,
        d.flows,
        d.flows_ge / d.flows as ccdf,
        t.samples
    from distributions as d
    inner join totals as t on d.site = t.site
)

select * from final
