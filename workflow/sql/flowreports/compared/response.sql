-- One row per flow with a set rate, or the background, and time window: exact and measured throughput, mean
-- inter-arrival times, and the rate set at the middle of the window. The tables are those of one capture; named_flows
-- has the names of flows by destination port; steps has the rates that are set, and since when.
with

flows as (
    select * from compared_flows
),

windows as (
    select * from judged_windows
),

iats as (
    select * from window_iats
),

named_flows as (
    select * from named_flows
),

steps as (
    select * from steps
),

flow_names as (
    select
        flows.flow,
        coalesce(named_flows.name, 'background') as name
    from flows
    left join named_flows on flows.dst_port = named_flows.dst_port
),

ends as (
    select
        min(window_ns) as first_ns,
        max(window_ns) as last_ns
    from windows
),

window_starts as (
    select unnest(range(first_ns, last_ns + 1, $length_ns)) as window_ns
    from ends
),

names as (
    select distinct name from flow_names
),

all_windows as (
    select
        window_starts.window_ns,
        names.name
    from window_starts
    cross join names
),

summed as (
    select
        flow_names.name,
        windows.window_ns,
        sum(windows.bytes) as bytes,
        sum(windows.bytes_measured) as bytes_measured
    from windows
    inner join flow_names on windows.flow = flow_names.flow
    group by flow_names.name, windows.window_ns
),

-- A flow's control connection uses the same port: the inter-arrival times are those of the connection with most bytes.
sizes as (
    select
        flow_names.name,
        flow_names.flow,
        sum(windows.bytes) as bytes
    from flow_names
    left join windows on flow_names.flow = windows.flow
    where flow_names.name <> 'background'
    group by flow_names.name, flow_names.flow
),

chosen as (
    select
        name,
        first(flow order by bytes desc nulls last, flow asc) as flow
    from sizes
    group by name
),

gaps as (
    select
        chosen.name,
        iats.window_ns,
        iats.iat_ns,
        iats.iat_measured_ns,
        iats.gap_measured_ns
    from iats
    inner join chosen on iats.flow = chosen.flow
),

placed as (
    select
        w.name as flow,
        w.window_ns,
        w.window_ns + $length_ns // 2 as middle_ns,  -- noqa: RF02
        w.window_ns - ends.first_ns as t_ns,
        coalesce(s.bytes, 0) * 8e9 / $length_ns as bps,  -- noqa: RF02
        coalesce(s.bytes_measured, 0) * 8e9 / $length_ns as bps_measured,  -- noqa: RF02
        g.iat_ns,
        g.iat_measured_ns,
        g.gap_measured_ns
    from all_windows as w
    cross join ends
    left join summed as s on w.name = s.name and w.window_ns = s.window_ns
    left join gaps as g on w.name = g.name and w.window_ns = g.window_ns
),

final as (
    select
        placed.flow,
        placed.t_ns,
        steps.bps as set_bps,
        placed.bps,
        placed.bps_measured,
        placed.iat_ns,
        placed.iat_measured_ns,
        placed.gap_measured_ns
    from placed
    asof left join steps on placed.flow = steps.name and placed.middle_ns >= steps.at_ns
)

select * from final
