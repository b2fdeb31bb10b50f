-- One row per threshold of a distribution: the whole numbers of ISO 3's series R10, from 1 to 8e18. upper_bound:
-- largest value below the next threshold.
with

mantissas as (
    select unnest([1000, 1250, 1600, 2000, 2500, 3150, 4000, 5000, 6300, 8000])::hugeint as mantissa
),

powers as (
    select ('1' || repeat('0', exponents.exponent))::hugeint as power
    from range(19) as exponents (exponent)
),

thresholds as (
    select (mantissas.mantissa * powers.power // 1000)::ubigint as threshold
    from mantissas
    cross join powers
    where mantissas.mantissa * powers.power % 1000 = 0
),

final as (
    select
        threshold,
        coalesce(lead(threshold) over (order by threshold) - 1, 18446744073709551615) as upper_bound
    from thresholds
    order by threshold
)

select * from final
