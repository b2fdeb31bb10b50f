-- One row per measure and triggers: how well the measured values agree with the exact ones. r2 is the coefficient of
-- determination, 1 - sum((y - x)^2) / sum((y - mean y)^2) with y exact and x measured; r2_log is the same for
-- logarithms of the pairs with both values above 0. Errors are |x - y| / y for y above 0; near: pairs without
-- difference, or with an error of at most 1 %. missing_share: of the exact values that are not outside, the share
-- without a measured one. ambiguous: pairs that are not judged, so no other column counts them. covered_share: of the
-- pairs with an interval, the share whose interval contains the exact value; width_median and width_p99: of intervals
-- other than from 0 to 0, which would hide the others if most flows have no loss.
with

pairs as (
    select * from pairs
),

compared as (
    select
        triggers,
        measure,
        exact,
        measured,
        covered,
        width,
        exact - measured as off,
        case when exact > 0 then abs(measured - exact) / exact end as error,
        case when exact > 0 and measured > 0 then ln(exact) end as exact_log,
        case when exact > 0 and measured > 0 then ln(exact) - ln(measured) end as off_log
    from pairs
    where exact is not null and measured is not null and not ambiguous
),

counted as (
    select
        triggers,
        measure,
        count(*) filter (where measured is null and not outside and not ambiguous)::ubigint as missing,
        count(*) filter (where measured is null and outside)::ubigint as outside,
        count(*) filter (where exact is null and not ambiguous)::ubigint as extra,
        count(*) filter (where ambiguous)::ubigint as ambiguous
    from pairs
    group by triggers, measure
),

agreed as (
    select
        triggers,
        measure,
        count(*)::ubigint as n,
        count(exact_log)::ubigint as n_log,
        count(*) filter (where off = 0)::ubigint as equal,
        count(*) filter (where off = 0 or error <= 0.01)::ubigint as near,
        fsum(off * off order by exact, measured) as residual,
        var_pop(exact order by exact) * count(*) as variation,
        fsum(off_log * off_log order by exact, measured) as residual_log,
        var_pop(exact_log order by exact) * count(exact_log) as variation_log,
        quantile_disc(error, 0.5) as error_median,
        quantile_disc(error, 0.99) as error_p99,
        max(error) as error_largest,
        count(*) filter (where covered) / nullif(count(covered), 0) as covered_share,
        quantile_disc(width, 0.5) filter (where exact > 0 or width > 0) as width_median,
        quantile_disc(width, 0.99) filter (where exact > 0 or width > 0) as width_p99
    from compared
    group by triggers, measure
),

final as (
    select
        c.triggers,
        c.measure,
        coalesce(a.n, 0) as n,
        coalesce(a.n_log, 0) as n_log,
        c.missing,
        c.outside,
        c.extra,
        c.ambiguous,
        coalesce(a.equal, 0) as equal,
        coalesce(a.near, 0) as near,
        case when a.n > 0 then a.equal / a.n end as equal_share,
        case when a.n > 0 then a.near / a.n end as near_share,
        case when coalesce(a.n, 0) + c.missing > 0 then c.missing / (coalesce(a.n, 0) + c.missing) end as missing_share,
        case when a.variation > 0 then 1 - a.residual / a.variation end as r2,
        case when a.variation_log > 0 then 1 - a.residual_log / a.variation_log end as r2_log,
        a.error_median,
        a.error_p99,
        a.error_largest,
        a.covered_share,
        a.width_median,
        a.width_p99
    from counted as c
    left join agreed as a on c.triggers = a.triggers and c.measure = a.measure
)

select * from final
