-- One row per measure and bin of the exact and of the measured value (bins of a twentieth of a decade), for the
-- measures that are compared at every report. Pairs of a second run with the paper's triggers are not counted: the name
-- all sorts before published.
with

pairs as (
    select * from pairs
),

own as (
    select min(triggers) as triggers from pairs
),

placed as (
    select
        p.measure,
        round(20 * log10(p.exact))::bigint as place,
        round(20 * log10(p.measured))::bigint as place_measured
    from pairs as p
    inner join own as o on p.triggers = o.triggers
    where
        p.measure in ('iat_reports', 'packet_size', 'bytes_in_flight', 'acknowledged_bytes', 'throughput_reports')
        and not p.ambiguous
        and p.exact > 0
        and p.measured > 0
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
