-- One row per kind of share, sample and category: the frames whose share has a confidence interval, and other sums
-- (null if the kind does not have them).
with

headers as (
    select * from headers
),

stacks as (
    select * from stacks
),

frame_sizes as (
    select * from frame_sizes
),

ip_versions as (
    select * from ip_versions
),

final as (
    select
        'header' as kind,
        sample,
        header as category,
        frames,
        null::ubigint as wire_bytes,
        occurrences
    from headers
    union all
    select
        'encapsulation' as kind,
        sample,
        encapsulation as category,
        sum(frames)::ubigint as frames,
        sum(wire_bytes)::ubigint as wire_bytes,
        null as occurrences
    from stacks
    group by sample, encapsulation
    union all
    select
        length as kind,
        sample,
        bin as category,
        frames,
        null as wire_bytes,
        null as occurrences
    from frame_sizes
    union all
    select
        'ip_version' as kind,
        sample,
        ip_version as category,
        frames,
        wire_bytes,
        null as occurrences
    from ip_versions
)

select * from final
