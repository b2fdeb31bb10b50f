-- One row per sample, measure and threshold: the number of flows whose value reaches this threshold but not the next
-- one (null: not even the first). Rates are rounded to bit/s; flows without duration have no rate.
with

flows as (
    select * from flows
),

thresholds as (
    select * from thresholds
),

flow_measures as (
    select
        sample,
        unnest(['wire', 'ip', 'payload', 'duration_ns', 'rate_bps']) as measure,
        unnest([
            wire_bytes::hugeint,
            ip_bytes::hugeint,
            payload_bytes::hugeint,
            (last_ns - first_ns)::hugeint,
            case
                when last_ns > first_ns
                    then (wire_bytes::hugeint * 8000000000 + (last_ns - first_ns) // 2) // (last_ns - first_ns)
            end
        ])::ubigint as amount
    from flows
),

counted as (
    select
        sample,
        measure,
        amount,
        count(*) as flows
    from flow_measures
    where amount is not null
    group by sample, measure, amount
),

final as (
    select
        counted.sample,
        counted.measure,
        thresholds.threshold,
        sum(counted.flows)::ubigint as flows
    from counted
    asof left join thresholds on counted.amount >= thresholds.threshold
    group by counted.sample, counted.measure, thresholds.threshold
    order by counted.sample, counted.measure, thresholds.threshold
)

select * from final
