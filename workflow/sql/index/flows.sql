-- One row per directed flow and sample: the flow tables of all samples (schemas/tables/flows.yaml).
with

samples as (
    select * from samples
    where acap is not null
),

flows as (
    select * from flows_of_files
),

final as (
    select
        s.sample,
        s.site,
        s.port,
        s.excluded,
        f.* exclude (file)  -- noqa: RF02
    from flows as f
    inner join samples as s on f.file = 'flows' || substr(s.acap, 5)  -- both have the same name below acap and flows
    where s.acap is not null
    order by s.sample, f.flow
)

select * from final
