-- One row per version of the innermost network header (4, 6, none), even without frames. A frame in a tunnel that does
-- not carry IP (ARP in VXLAN) has a flow by its outer addresses, and counts as none.
with

frames as (
    select * from frames
),

flows as (
    select * from flows
),

innermost as (
    select * from innermost
),

versions as (
    select unnest(['4', '6', 'none']) as ip_version
),

stacks as (
    select stack from innermost
    where not_ip
),

not_ip as (
    select
        flows.ip_version::varchar as ip_version,
        count(*) as frames,
        sum(frames.wire_len) as wire_bytes
    from frames
    inner join flows on frames.flow = flows.flow
    inner join stacks on frames.stack = stacks.stack
    group by flows.ip_version
),

counted as (
    select
        ip_version::varchar as ip_version,
        frames,
        wire_bytes
    from flows
    union all
    select
        ip_version,
        -frames as frames,
        -wire_bytes as wire_bytes
    from not_ip
    union all
    select
        'none' as ip_version,
        frames,
        wire_bytes
    from not_ip
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
