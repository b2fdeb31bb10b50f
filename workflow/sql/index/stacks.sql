-- One row per sample and header stack.
with

samples as (
    select * from samples
),

counted as (
    select * from stacks_of_files
),

final as (
    select
        s.sample,
        s.site,
        s.port,
        s.excluded,
        c.protocols,
        c.stack,
        c.frames,
        c.wire_bytes
    from counted as c
    inner join samples as s on c.file = s.acap
    order by s.sample asc, c.frames desc, c.protocols asc, c.stack asc
)

select * from final
