-- One row per scope, site, measure and threshold: the number of flows that reach it. Flows observed only in misdated
-- samples have neither duration nor rate, unless all samples are misdated.
with

thresholds as (
    select * from thresholds
),

scopes as (
    select * from scopes
),

flow_values as (
    select * from flow_values
),

port_flows as (
    select * from port_flows
),

site_flows as (
    select * from site_flows
),

campaign_flows as (
    select * from campaign_flows
),

samples as (
    select * from traffic
),

any_dated as (
    select coalesce(bool_or(not misdated), false) as found
    from samples
),

dated_samples as (
    select samples.sample
    from samples
    cross join any_dated
    where not (any_dated.found and coalesce(samples.misdated, false))
),

stitched as (
    select
        'port' as scope,
        site,
        wire_bytes,
        ip_bytes,
        payload_bytes,
        duration_ns,
        rate_bps,
        dated
    from port_flows
    union all
    select
        'site' as scope,
        site,
        wire_bytes,
        ip_bytes,
        payload_bytes,
        duration_ns,
        rate_bps,
        dated
    from site_flows
    union all
    select
        'campaign' as scope,
        'all' as site,
        wire_bytes,
        ip_bytes,
        payload_bytes,
        duration_ns,
        rate_bps,
        dated
    from campaign_flows
),

-- histogram() has bins that include their upper bounds, and one for larger values.
bounds as (
    select list(threshold - 1 order by threshold) as upper_bounds
    from thresholds
),

counted as (
    select
        f.scope,
        f.site,
        unnest(['wire', 'ip', 'payload', 'duration_ns', 'rate_bps']) as measure,
        unnest([
            histogram(f.wire_bytes, b.upper_bounds),
            histogram(f.ip_bytes, b.upper_bounds),
            histogram(f.payload_bytes, b.upper_bounds),
            histogram(f.duration_ns::ubigint, b.upper_bounds) filter (where f.dated),
            histogram(f.rate_bps, b.upper_bounds) filter (where f.dated)
        ]) as counts
    from stitched as f
    cross join bounds as b
    group by f.scope, f.site
),

entries as (
    select
        scope,
        site,
        measure,
        unnest(map_entries(counts)) as entry
    from counted
),

bucketed as (
    select
        e.scope,
        e.site,
        e.measure,
        t.threshold,
        e.entry.value as flows
    from entries as e
    left join thresholds as t on e.entry.key = t.upper_bound
    where e.entry.value > 0
),

buckets as (
    select
        'sample' as scope,
        scopes.site,
        flow_values.measure,
        flow_values.threshold,
        sum(flow_values.flows) as flows
    from flow_values
    inner join scopes on flow_values.sample = scopes.sample
    left join dated_samples on flow_values.sample = dated_samples.sample
    where flow_values.measure not in ('duration_ns', 'rate_bps') or dated_samples.sample is not null
    group by scopes.site, flow_values.measure, flow_values.threshold
    union all
    select * from bucketed
    union all
    select
        scope,
        'all' as site,
        measure,
        threshold,
        sum(flows) as flows
    from bucketed
    where scope <> 'campaign'
    group by scope, measure, threshold
),

extents as (
    select
        scope,
        site,
        measure,
        max(threshold) as highest,
        sum(flows)::ubigint as flows
    from buckets
    group by scope, site, measure
),

final as (
    select
        e.scope,
        e.site,
        e.measure,
        t.threshold,
        e.flows,
        (
            sum(coalesce(b.flows, 0)) over (
                partition by e.scope, e.site, e.measure order by t.threshold desc rows unbounded preceding
            )
        )::ubigint as flows_ge
    from extents as e
    inner join thresholds as t on e.highest >= t.threshold
    left join buckets as b
        on e.scope = b.scope and e.site = b.site and e.measure = b.measure and t.threshold = b.threshold
)

select * from final
