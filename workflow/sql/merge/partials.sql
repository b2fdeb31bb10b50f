-- One row per row of a partial table, with its sample. $files: partial/<folder>/<table>.parquet of all samples.
with

samples as (
    select * from samples
),

partials as (
    select
        parse_path(filename)[-2] as folder,
        * exclude (filename)
    from read_parquet($files, filename = true)
),

final as (
    select
        s.sample,
        p.* exclude (folder)  -- noqa: RF02
    from partials as p
    inner join samples as s on p.folder = s.folder
)

select * from final
