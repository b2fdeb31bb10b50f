-- One row per acap: its path, times and number of frames, and the sizes and checksums of its files.
with

samples as (
    select * from samples
),

files as (
    select * from files
),

manifest_files as (
    select * from manifest_files
),

final as (
    select
        s.acap as file,
        s.sample,
        s.first_ns,
        s.last_ns,
        s.frames as rows,
        f.acap_bytes as bytes,
        f.acap_sha256 as sha256,
        f.flows_bytes,
        f.flows_sha256,
        m.sha256 as manifest_sha256
    from samples as s
    inner join files as f on s.sample = f.sample
    inner join manifest_files as m on s.sample = m.sample
    where s.acap is not null
    order by s.sample
)

select * from final
