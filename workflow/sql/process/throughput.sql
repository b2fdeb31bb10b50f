-- One row per site, port and time bin that a sample covers, including idle ones. A sample without a manifest's time
-- covers its first to its last frame; if these are more than $max_silent_bins bins, such as with a wrong timestamp,
-- only bins with frames have a row.
with

samples as (
    select * from traffic
),

covered as (
    select * from covered
),

throughput as (
    select * from throughput
),

counted as (
    select
        samples.site,
        samples.port,
        throughput.start_ns,
        sum(throughput.frames)::ubigint as frames,
        sum(throughput.wire_bytes)::ubigint as wire_bytes,
        count(*)::ubigint as samples
    from throughput
    inner join samples on throughput.sample = samples.sample
    group by samples.site, samples.port, throughput.start_ns
),

spans as (
    select
        site,
        port,
        case when actual_by = 'manifest' then manifest_start_ns else start_ns end as first_ns,
        case when actual_by = 'manifest' then manifest_end_ns - 1 else end_ns end as last_ns
    from samples
    where
        actual_by = 'manifest'
        or (actual_by = 'frames' and (end_ns - start_ns) // $bin_ns < $max_silent_bins)
),

watched as (
    select
        site,
        port,
        unnest(
            generate_series(first_ns - ((first_ns % $bin_ns) + $bin_ns) % $bin_ns, last_ns, $bin_ns)
        ) as start_ns
    from spans
),

bins as (
    select
        site,
        port,
        start_ns
    from counted
    union
    select
        site,
        port,
        start_ns
    from watched
),

cover as (
    select
        b.site,
        b.port,
        b.start_ns,
        -- least and greatest ignore null: a bin that no time covers would count as covered completely
        coalesce(
            sum(least(c.end_ns, b.start_ns + $bin_ns) - greatest(c.start_ns, b.start_ns)) filter (
                where c.start_ns is not null
            ),
            0
        )::bigint as covered_ns
    from bins as b
    left join covered as c
        on b.site = c.site and b.port = c.port and b.start_ns + $bin_ns > c.start_ns and b.start_ns < c.end_ns
    group by b.site, b.port, b.start_ns
),

final as (
    select
        v.site,
        v.port,
        v.start_ns,
        $bin_ns::bigint as bin_ns,
        v.covered_ns,
        coalesce(n.frames, 0)::ubigint as frames,
        coalesce(n.wire_bytes, 0)::ubigint as wire_bytes,
        case
            when v.covered_ns > 0
                then (
                    (coalesce(n.wire_bytes, 0)::hugeint * 8000000000 + v.covered_ns // 2) // v.covered_ns
                )::ubigint
        end as rate_bps,
        coalesce(n.samples, 0)::ubigint as samples
    from cover as v
    left join counted as n on v.site = n.site and v.port = n.port and v.start_ns = n.start_ns
)

select * from final
