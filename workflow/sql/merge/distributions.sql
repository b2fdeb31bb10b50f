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

flows as (
    select * from flows
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

dated_flows as (
    select distinct
        flows.site,
        flows.port,
        flows.flow_id
    from flows
    inner join dated_samples on flows.sample = dated_samples.sample
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
        site as seen_site,
        port as seen_port,
        flow_id
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
        site as seen_site,
        largest_port as seen_port,
        flow_id
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
        largest_site as seen_site,
        largest_port as seen_port,
        flow_id
    from campaign_flows
),

placed as (
    select
        s.*,
        d.flow_id is not null as dated
    from stitched as s
    left join dated_flows as d on s.seen_site = d.site and s.seen_port = d.port and s.flow_id = d.flow_id
),

measured as (
    select
        scope,
        site,
        unnest(['wire', 'ip', 'payload', 'duration_ns', 'rate_bps']) as measure,
        unnest([
            wire_bytes,
            ip_bytes,
            payload_bytes,
            case when dated then duration_ns::ubigint end,
            case when dated then rate_bps end
        ]) as amount
    from placed
),

counted as (
    select
        scope,
        site,
        measure,
        amount,
        count(*) as flows
    from measured
    where amount is not null
    group by scope, site, measure, amount
),

bucketed as (
    select
        counted.scope,
        counted.site,
        counted.measure,
        thresholds.threshold,
        sum(counted.flows) as flows
    from counted
    asof left join thresholds on counted.amount >= thresholds.threshold
    group by counted.scope, counted.site, counted.measure, thresholds.threshold
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
