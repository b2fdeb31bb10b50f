-- One row per sample, measure and threshold: the number of flows whose value reaches this threshold but not the next
-- one (null: not even the first). Rates are rounded to bit/s; flows without duration have no rate.
with

flows as (
    select * from flows
),

thresholds as (
    select * from thresholds
),

-- histogram() has bins that include their upper bounds, and one for larger values.
bounds as (
    select list(threshold - 1 order by threshold) as upper_bounds
    from thresholds
),

flow_measures as (
    select
        sample,
        wire_bytes,
        ip_bytes,
        payload_bytes,
        (last_ns - first_ns)::ubigint as duration_ns,
        case
            when last_ns > first_ns
                then
                    (
                        (wire_bytes::hugeint * 8000000000 + (last_ns - first_ns) // 2) // (last_ns - first_ns)
                    )::ubigint
        end as rate_bps
    from flows
),

counted as (
    select
        f.sample,
        unnest(['wire', 'ip', 'payload', 'duration_ns', 'rate_bps']) as measure,
        unnest([
            histogram(f.wire_bytes, b.upper_bounds),
            histogram(f.ip_bytes, b.upper_bounds),
            histogram(f.payload_bytes, b.upper_bounds),
            histogram(f.duration_ns, b.upper_bounds),
            histogram(f.rate_bps, b.upper_bounds)
        ]) as counts
    from flow_measures as f
    cross join bounds as b
    group by f.sample
),

entries as (
    select
        sample,
        measure,
        unnest(map_entries(counts)) as entry
    from counted
),

final as (
    select
        e.sample,
        e.measure,
        t.threshold,
        e.entry.value::ubigint as flows
    from entries as e
    left join thresholds as t on e.entry.key = t.upper_bound
    where e.entry.value > 0
    order by e.sample, e.measure, t.threshold
)

select * from final
