-- One row per row of a partial table, with its sample. $files: partial/<directory>/<table>.parquet of all samples.
with

samples as (
    select * from samples
),

partials as (
    select
        parse_path(filename)[-2] as directory,
        * exclude (filename)
    from read_parquet($files, filename = true)
),

final as (
    select
        s.sample,
        p.* exclude (directory)  -- noqa: RF02
    from partials as p
    inner join samples as s on p.directory = s.directory
)

select * from final
