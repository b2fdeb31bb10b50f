-- One row per sample and mistake: its manifest and acap contradict each other, or tables cannot identify it.
with

manifests as (
    select * from manifests
),

samples as (
    select * from samples
),

digests as (
    select * from digests
),

files as (
    select * from files
),

named as (
    select
        sample,
        'its manifest names another sample' as mistake
    from manifests
    where declared_sample is distinct from sample
    union all
    select
        sample,
        'its manifest names no site or no port' as mistake
    from manifests
    where site is null or port is null
    union all
    select
        sample,
        'its site has the name that tables give to the sum over all sites' as mistake
    from samples
    where site = 'all'
),

digested as (
    select
        files.sample,
        'its acap was not written by acapella digest' as mistake
    from files
    left join digests on files.sample = digests.sample
    where digests.frames is null
    union all
    select
        sample,
        'its acap was digested for another site or port than its manifest has' as mistake
    from samples
    where digest_site <> site or digest_port <> port
),

final as (
    select * from named
    union all
    select * from digested
    order by sample, mistake
)

select * from final
