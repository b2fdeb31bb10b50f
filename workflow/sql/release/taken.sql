-- One row per sample with an acap: the input of its release, and the values that the release must not contain. A row of
-- only one of the two tables is kept, with nulls: the catalog was changed, and the release must reject it.
with

samples as (
    select * from samples
),

acaps as (
    select * from acaps
),

final as (
    select
        coalesce(s.sample, a.sample) as sample,
        s.site,
        s.port,
        s.environment,
        s.start_ns,
        s.requested_start_ns,
        s.file,
        s.direction,
        s.method,
        s.snaplen,
        s.dropped_kernel,
        s.filtered::varchar as filtered,
        s.one_in,
        s.sampled_out,
        s.restriction,
        s.excluded,
        s.engine,
        s.sha256,
        a.sha256 as acap_sha256,
        a.flows_sha256,
        a.manifest_sha256
    from samples as s
    full join acaps as a on s.sample = a.sample
    where s.acap is not null or s.sample is null
    order by 1
)

select * from final
