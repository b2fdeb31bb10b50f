-- One row per sample: the gaps of its port before it (times that no sample covers); null if the sample has no time.
with

samples as (
    select * from traffic
),

ordered as (
    select
        site,
        port,
        sample,
        start_ns,
        max(end_ns) over (
            partition by site, port order by start_ns, sample rows between unbounded preceding and 1 preceding
        ) as covered_until_ns
    from samples
    where start_ns is not null
),

placed as (
    select
        site,
        port,
        sample,
        -- with count(*) filter (...), DuckDB 2.0 would count the samples of each window one by one
        count(nullif(start_ns > covered_until_ns, false)) over upto as gaps_before,
        coalesce(
            sum(start_ns - covered_until_ns) filter (where start_ns > covered_until_ns) over upto, 0
        )::bigint as gap_ns_before
    from ordered
    window upto as (partition by site, port order by start_ns, sample rows unbounded preceding)
),

final as (
    select
        s.site,
        s.port,
        s.sample,
        p.gaps_before,
        p.gap_ns_before
    from samples as s
    left join placed as p on s.sample = p.sample
)

select * from final
