-- One row per report: the last packet of its flow that it covers (frame), by the flow's packets up to the report's
-- time. If packets of the flow have this time, the report's time of the last packet and the inter-arrival time before
-- that packet show how many of them the report covers: none, the first, or, of two, both. ambiguous: they do not show
-- it, so frame is null. early: further packets of the flow have the report's time. by_iat: frame results from the
-- inter-arrival time. A flow of ICMP combines flows of several types, whose reports do not show its last packet.
-- Reports and rows of the series are matched as in report_spans.
with

packets as (
    select * from packets
),

flows as (
    select * from compared_flows
    where key is not null
),

series as (
    select
        number,
        ts_ns,
        place,
        row_number() over (partition by ts_ns order by place) as turn,
        count(*) over (partition by ts_ns) as times
    from all_series
),

stamps as (
    select
        ts_ns,
        packet_ns,
        iat_ns,
        row_number() over (partition by ts_ns order by place) as turn,
        count(*) over (partition by ts_ns) as times
    from report_stamps
),

numbers as (
    select * from measured_numbers
),

moments as (
    select
        key,
        ts_ns,
        count(*) as packets,
        min(frame) as first_frame,
        max(frame) as last_frame,
        lag(max(frame)) over (partition by key order by ts_ns) as before_frame
    from packets
    group by key, ts_ns
),

reverse as (
    select distinct
        way_back,
        ts_ns
    from packets
),

ways as (
    select distinct
        key,
        way
    from keys
),

reports as (
    select
        flows.flow,
        flows.key,
        ways.way,
        series.place,
        series.ts_ns,
        case when flows.ip_proto not in (1, 58) then stamps.packet_ns end as packet_ns,
        stamps.iat_ns
    from series
    inner join numbers on series.number = numbers.number
    inner join flows on numbers.flow = flows.flow
    inner join ways on flows.key = ways.key
    left join stamps on series.ts_ns = stamps.ts_ns and series.turn = stamps.turn and series.times = stamps.times
),

placed as (
    select
        reports.*,
        moments.ts_ns = reports.ts_ns as simultaneous,
        moments.packets,
        moments.first_frame,
        moments.last_frame,
        moments.before_frame
    from reports
    asof inner join moments on reports.key = moments.key and reports.ts_ns >= moments.ts_ns
),

found as (
    select
        placed.*,
        placed.simultaneous and placed.packets > 1 and placed.packet_ns = placed.ts_ns as by_iat,
        case
            when not placed.simultaneous then placed.last_frame
            when placed.packet_ns < placed.ts_ns then placed.before_frame
            when placed.packets = 1 and (placed.packet_ns is not null or reverse.ts_ns is null) then placed.last_frame
            when placed.packets = 1 or placed.packet_ns is null then null
            when placed.iat_ns > 0 or (placed.iat_ns is null and placed.before_frame is null) then placed.first_frame
            when placed.iat_ns = 0 and placed.packets = 2 then placed.last_frame
        end as frame
    from placed
    left join reverse on placed.way = reverse.way_back and placed.ts_ns = reverse.ts_ns
),

final as (
    select
        flow,
        key,
        place,
        ts_ns,
        frame,
        frame is null as ambiguous,
        coalesce(frame < last_frame, false) as early,
        coalesce(by_iat, false) as by_iat
    from found
)

select * from final
