-- One row per report that tells an inter-arrival time; one that the control plane asked for tells an old one once more.
with

series as (
    select * from measured_series
),

final as (
    select
        flow,
        ts_ns,
        iat_ns
    from series
    where iat_ns is not null
)

select * from final
