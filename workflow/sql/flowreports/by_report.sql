-- One row per measure and place of the exact and of the measured value, each a twentieth of a decade, of what is
-- compared at every report.
with

pairs as (
    select * from pairs
),

placed as (
    select
        measure,
        round(20 * log10(exact))::bigint as place,
        round(20 * log10(measured))::bigint as place_measured
    from pairs
    where
        measure in ('iat_reports', 'packet_size', 'bytes_in_flight', 'acknowledged_bytes', 'throughput_reports')
        and exact > 0
        and measured > 0
),

final as (
    select
        measure,
        place,
        place_measured,
        count(*)::ubigint as pairs
    from placed
    group by measure, place, place_measured
)

select * from final
