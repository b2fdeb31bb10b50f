-- One row per header label: frames that have it, and how often it occurs.
with

frames as (
    select * from frames
),

stacks as (
    select
        stack,
        count(*) as frames
    from frames
    group by stack
),

labels as (
    select
        stack,
        frames,
        unnest(string_split(stack, '/')) as header
    from stacks
    where stack <> ''
),

repeated as (
    select
        stack,
        header,
        frames,
        count(*) as times
    from labels
    group by stack, header, frames
),

final as (
    select
        header,
        sum(frames)::ubigint as frames,
        sum(frames * times)::ubigint as occurrences
    from repeated
    group by header
    order by header
)

select * from final
