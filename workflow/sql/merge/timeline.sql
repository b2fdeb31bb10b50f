-- One row per sample: the gaps of its port, times that no sample covers, before it.
with

samples as (
    select * from samples
    where start_ns is not null
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
),

final as (
    select
        site,
        port,
        sample,
        (count(*) filter (where start_ns > covered_until_ns) over upto)::bigint as gaps_before,
        coalesce(
            sum(start_ns - covered_until_ns) filter (where start_ns > covered_until_ns) over upto, 0
        )::bigint as gap_ns_before
    from ordered
    window upto as (partition by site, port order by start_ns, sample rows unbounded preceding)
)

select * from final
