-- One row per sample and version of the innermost network header (4, 6, none), even without frames. A frame in a tunnel
-- that does not carry IP (ARP in VXLAN) has a flow by its outer addresses, and counts as none.
with

flow_stacks as (
    select * from flow_stacks
),

flows as (
    select * from flows
),

samples as (
    select * from samples
),

innermost as (
    select * from innermost
),

versions as (
    select unnest(['4', '6', 'none']) as ip_version
),

stacks as (
    select
        sample,
        stack
    from innermost
    where not_ip
),

not_ip as (
    select
        flow_stacks.sample,
        flows.ip_version::varchar as ip_version,
        sum(flow_stacks.frames)::hugeint as frames,
        sum(flow_stacks.wire_bytes)::hugeint as wire_bytes
    from flow_stacks
    inner join flows on flow_stacks.sample = flows.sample and flow_stacks.flow = flows.flow
    inner join stacks on flow_stacks.sample = stacks.sample and flow_stacks.stack = stacks.stack
    group by flow_stacks.sample, flows.ip_version
),

counted as (
    select
        sample,
        ip_version::varchar as ip_version,
        frames,
        wire_bytes
    from flows
    union all
    select
        sample,
        ip_version,
        -frames as frames,
        -wire_bytes as wire_bytes
    from not_ip
    union all
    select
        sample,
        'none' as ip_version,
        frames,
        wire_bytes
    from not_ip
    union all
    select
        sample,
        'none' as ip_version,
        sum(frames)::hugeint as frames,
        sum(wire_bytes)::hugeint as wire_bytes
    from flow_stacks
    where flow is null
    group by sample
),

final as (
    select
        samples.sample,
        versions.ip_version,
        coalesce(sum(counted.frames), 0)::ubigint as frames,
        coalesce(sum(counted.wire_bytes), 0)::ubigint as wire_bytes
    from samples
    cross join versions
    left join counted on samples.sample = counted.sample and versions.ip_version = counted.ip_version
    group by samples.sample, versions.ip_version
    order by samples.sample, versions.ip_version
)

select * from final
