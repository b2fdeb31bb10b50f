-- One row per directed flow and sample: the rows of flow tables (schemas/tables/flows.yaml).
with

samples as (
    select * from samples
    where acap is not null
),

flows as (
    select * from read_parquet($files, filename = true)
),

final as (
    select
        s.sample,
        s.site,
        s.port,
        s.excluded,
        f.* exclude (site, port, filename)  -- noqa: RF02
    from flows as f
    -- both files have the same name below acap and flows
    inner join samples as s on f.filename = 'flows' || substr(s.acap, 5)
    where s.acap is not null
    order by s.sample, f.flow
)

select * from final
