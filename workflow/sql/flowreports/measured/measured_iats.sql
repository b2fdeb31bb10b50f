-- One row per report with an inter-arrival time. Reports that the control plane requests repeat an earlier
-- inter-arrival time.
with

series as (
    select * from measured_series
),

final as (
    select
        flow,
        place,
        ts_ns,
        iat_ns
    from series
    where iat_ns is not null
)

select * from final
