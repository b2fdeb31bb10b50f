-- One row per sample and version of the innermost network header (4, 6, none), even without frames. A frame in a tunnel
-- that does not carry IP (ARP in VXLAN) has a flow by its outer addresses, and counts as none. The content of some
-- tunnels (CAPWAP) is in the header stack, but not in the flow: its IP version counts.
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
        stack,
        case when not_ip then 'none' else last_version end as ip_version
    from innermost
    where not_ip or last_version is not null
),

-- frames whose flow has a different version
moved as (
    select
        flow_stacks.sample,
        flows.ip_version::varchar as flow_version,
        stacks.ip_version,
        sum(flow_stacks.frames)::hugeint as frames,
        sum(flow_stacks.wire_bytes)::hugeint as wire_bytes
    from flow_stacks
    inner join flows on flow_stacks.sample = flows.sample and flow_stacks.flow = flows.flow
    inner join stacks on flow_stacks.sample = stacks.sample and flow_stacks.stack = stacks.stack
    where flows.ip_version::varchar <> stacks.ip_version
    group by flow_stacks.sample, flows.ip_version, stacks.ip_version
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
        flow_version as ip_version,
        -frames as frames,
        -wire_bytes as wire_bytes
    from moved
    union all
    select
        sample,
        ip_version,
        frames,
        wire_bytes
    from moved
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
