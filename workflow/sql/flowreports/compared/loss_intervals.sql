-- One row: the number of flows with an exact loss and an interval (flows), with a measured loss but no interval
-- (unbounded: not followed throughout), with an interval of missing bytes that contains the exact number (covered), and
-- with an interval of nonzero width (uncertain). The interval reaches from missing_measured_bytes to the sum of these
-- and uncertain_bytes. Widths are relative to the sequence numbers that the flow occupies or misses, for intervals
-- other than from 0 to 0.
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
