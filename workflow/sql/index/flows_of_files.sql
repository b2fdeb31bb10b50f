-- The rows of several flow tables (schemas/tables/flows.yaml), each with the path of its file.
with

flows as (
    select * from read_parquet($files, filename = true)
),

final as (
    select
        filename as file,
        * exclude (site, port, filename)
    from flows
)

select * from final
