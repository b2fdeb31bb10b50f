-- One row: how many flows have an exact loss and an interval, how many have a measured loss and no interval (unbounded:
-- followed in part), in how many of the first the interval of missing bytes (from
-- the measured ones to these and uncertain_bytes) covers the exact ones, and how wide the interval is, by the exact
-- numbers that the flow occupies or misses; of intervals other than from 0 to 0.
with

flows as (
    select
        missing_bytes,
        missing_measured_bytes,
        uncertain_bytes,
        payload_bytes - retransmitted_bytes + missing_bytes as span_bytes
    from compared_flows
    where missing_bytes is not null and missing_measured_bytes is not null and not outside
),

final as (
    select
        count(uncertain_bytes)::ubigint as flows,
        count(*) filter (where uncertain_bytes is null)::ubigint as unbounded,
        count(*) filter (
            where missing_bytes between missing_measured_bytes and missing_measured_bytes + uncertain_bytes
        )::ubigint as covered,
        count(*) filter (where uncertain_bytes > 0)::ubigint as uncertain,
        quantile_disc(uncertain_bytes / span_bytes, 0.5) filter (
            where span_bytes > 0 and (missing_bytes > 0 or uncertain_bytes > 0)
        ) as width_median,
        quantile_disc(uncertain_bytes / span_bytes, 0.99) filter (
            where span_bytes > 0 and (missing_bytes > 0 or uncertain_bytes > 0)
        ) as width_p99
    from flows
)

select * from final
