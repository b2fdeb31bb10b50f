-- One row per sample whose frames have a time: its silences, which are times between frames that its manifest does not
-- show as captured, of at least $min_silence_ns. Gaps between frames are measured in whole bins of table throughput.
with

samples as (
    select * from samples
),

throughput as (
    select * from throughput
),

-- samples that are long enough for a silence; the bins of the others are not sorted
long_samples as (
    select * from samples
    where end_ns - start_ns >= $min_silence_ns
),

gaps as (
    select
        t.sample,
        t.start_ns as to_ns,
        lag(t.start_ns) over (partition by t.sample order by t.start_ns) + $bin_ns as from_ns
    from throughput as t
    semi join long_samples as s on t.sample = s.sample
),

unexplained as (
    select
        g.sample,
        g.to_ns - g.from_ns
        - case
            when s.actual_by = 'manifest'
                then greatest(0, least(g.to_ns, s.manifest_end_ns) - greatest(g.from_ns, s.manifest_start_ns))
            else 0
        end as silence_ns
    from gaps as g
    inner join long_samples as s on g.sample = s.sample
    where g.from_ns is not null
),

silences as (
    select
        sample,
        sum(silence_ns) as silence_ns,
        max(silence_ns) as longest_silence_ns
    from unexplained
    where silence_ns >= $min_silence_ns
    group by sample
),

final as (
    select
        s.sample,
        coalesce(n.silence_ns, 0)::bigint as silence_ns,
        coalesce(n.longest_silence_ns, 0)::bigint as longest_silence_ns
    from samples as s
    left join silences as n on s.sample = n.sample
    where s.first_ns is not null
)

select * from final
