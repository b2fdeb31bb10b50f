-- One row per stretch of frames that can have been one busy period of the mirror port: its pauses are no longer than
-- the delay of timestamps plus one frame. waiting_bytes: the maximum that can have waited for the port before a loss.
-- Until then it sent all frames offered, and these took time to arrive: a flow arrives over one line, and so do all
-- frames that the mirrored port receives, but frames that it sends arrive over the lines of all their senders. All
-- frames may have waited if they follow the sample's start without a pause (stretch 0), or if the queue's size or the
-- lines' rate is unknown.
with

arrivals as (
    select * from arrivals
),

mirror as (
    select * from mirror
),

lateness as (
    select
        sample,
        max(late_ns) as late_ns
    from arrivals
    group by sample
),

pauses as (
    select
        a.*,
        coalesce(
            a.at_ns - lag(a.at_ns, 1, m.start_ns) over in_order - a.port_bytes * 8e9 / m.capacity_bps
            > l.late_ns + m.longest_bytes * 8e9 / m.capacity_bps, false
        ) as pause
    from arrivals as a
    inner join mirror as m on a.sample = m.sample
    inner join lateness as l on a.sample = l.sample
    where m.capacity_bps > 0
    window in_order as (partition by a.sample order by a.at_ns, a.frame)
),

numbered as (
    select
        *,
        -- with count(*) filter (where pause), DuckDB 2.0 would count the frames of each window one by one
        count(nullif(pause, false)) over (partition by sample order by at_ns, frame rows unbounded preceding) as stretch
    from pauses
),

sums as (
    select
        sample,
        frame,
        at_ns,
        stretch,
        sum(port_bytes) over (partition by sample, stretch order by at_ns, frame rows unbounded preceding)
            as sent_bytes,
        case
            when flow is not null
                then
                    sum(port_bytes) over (
                        partition by sample, stretch, flow order by at_ns, frame rows unbounded preceding
                    )
        end as flow_bytes
    from numbered
),

largest as (
    select
        sample,
        stretch,
        at_ns,
        sent_bytes,
        coalesce(
            max(flow_bytes) over (partition by sample, stretch order by at_ns, frame rows unbounded preceding), 0
        ) as flow_bytes
    from sums
),

final as (
    select
        l.sample,
        min(l.at_ns) as from_ns,
        max(l.at_ns) as to_ns,
        -- a line may send one frame in excess of its rate
        max(l.sent_bytes - case when l.stretch > 0 and m.lines_known then m.capacity_bps * greatest(
            0,
            (l.flow_bytes - m.longest_bytes) / m.port_rate_bps,
            coalesce((l.sent_bytes - 2 * m.longest_bytes) / m.line_bps, 0)
        ) else 0 end) as waiting_bytes
    from largest as l
    inner join mirror as m on l.sample = m.sample
    group by l.sample, l.stretch
)

select * from final
