-- One row per row of a partial table, with its sample. $files: partial tables, each of one or several samples.
with

samples as (
    select * from samples
),

chosen as (
    select unnest($chosen::varchar[]) as directory
),

partials as (
    select
        sample as directory,
        * exclude (sample)
    from read_parquet($files)
),

final as (
    select
        s.sample,
        p.* exclude (directory)  -- noqa: RF02
    from partials as p
    inner join samples as s on p.directory = s.directory
    semi join chosen as c on p.directory = c.directory
)

select * from final
