-- One row per report that added packets to its flow: the earliest and latest time at which these can have been sent. A
-- report has the time of its flow's last packet (`last`) and the inter-arrival time before it; the other packets
-- followed the previous report. Flows without a slot have neither. Reports and rows of the series are matched by time;
-- if a time has more reports than rows (older ones), only the time of the report is known. shared: the flow may share
-- its cells in all rows of the sketch, so the bytes may be too many (collisions.py).
with

stamps as (
    select
        ts_ns,
        packet_ns,
        iat_ns,
        shared,
        row_number() over (partition by ts_ns order by place) as turn,
        count(*) over (partition by ts_ns) as times
    from report_stamps
),

series as (
    select
        *,
        row_number() over (partition by ts_ns order by place) as turn,
        count(*) over (partition by ts_ns) as times
    from all_series
),

numbers as (
    select * from measured_numbers
),

starts as (
    select
        flow as number,
        start_ns
    from reported_flows
),

matched as (
    select
        series.number,
        series.bytes,
        series.packets,
        series.ts_ns,
        stamps.packet_ns,
        stamps.iat_ns,
        coalesce(stamps.shared, true) as shared,
        lag(series.ts_ns) over (partition by series.number order by series.place) as before_ns
    from series
    left join stamps
        on series.ts_ns = stamps.ts_ns and series.turn = stamps.turn and series.times = stamps.times
),

final as (
    select
        numbers.flow,
        matched.bytes,
        matched.packet_ns is not null as has_slot,
        matched.shared,
        least(
            coalesce(matched.packet_ns, matched.ts_ns),
            case
                when matched.packets = 1 and matched.packet_ns is not null then matched.packet_ns
                when matched.packets = 2 and matched.iat_ns is not null then matched.packet_ns - matched.iat_ns
                else coalesce(matched.before_ns, starts.start_ns, matched.ts_ns)
            end
        ) as from_ns,
        coalesce(matched.packet_ns, matched.ts_ns) as until_ns
    from matched
    inner join numbers on matched.number = numbers.number
    inner join starts on matched.number = starts.number
    where matched.bytes > 0
)

select * from final
