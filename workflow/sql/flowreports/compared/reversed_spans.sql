-- One row per flow and window in which a packet of the flow follows a frame of a later window in the file: the windows
-- from from_ns to until_ns may be wrong. Reports are sent in file order, so they do not show a packet's window if
-- packets of later windows precede it. until_ns increases with from_ns.
with

frames as (
    select * from frames
),

packets as (
    select * from packets
),

flows as (
    select * from compared_flows
),

windows as (
    select
        frame,
        ts_ns // $length_ns * $length_ns as window_ns
    from frames
    where ts_ns is not null
),

latest as (
    select
        frame,
        window_ns,
        max(window_ns) over (order by frame rows between unbounded preceding and current row) as latest_ns
    from windows
),

late as (
    select
        flows.flow,
        latest.window_ns as from_ns,
        max(latest.latest_ns) as until_ns
    from latest
    inner join packets on latest.frame = packets.frame
    inner join flows on packets.key = flows.key
    where latest.window_ns < latest.latest_ns
    group by flows.flow, latest.window_ns
),

final as (
    select
        flow,
        from_ns,
        max(until_ns) over (partition by flow order by from_ns) as until_ns
    from late
)

select * from final
