-- One row per version of the innermost network header (4, 6, none), also where no frame has it.
with

frames as (
    select * from frames
),

flows as (
    select * from flows
),

versions as (
    select unnest(['4', '6', 'none']) as ip_version
),

counted as (
    select
        ip_version::varchar as ip_version,
        frames,
        wire_bytes
    from flows
    union all
    select
        'none' as ip_version,
        count(*) as frames,
        sum(wire_len) as wire_bytes
    from frames
    where flow is null
),

final as (
    select
        versions.ip_version,
        coalesce(sum(counted.frames), 0)::ubigint as frames,
        coalesce(sum(counted.wire_bytes), 0)::ubigint as wire_bytes
    from versions
    left join counted on versions.ip_version = counted.ip_version
    group by versions.ip_version
    order by versions.ip_version
)

select * from final
