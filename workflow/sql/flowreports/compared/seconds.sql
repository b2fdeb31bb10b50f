-- One row per second since the sample's earliest packet, if it has IP packets or reports: the numbers of both. A report
-- counts in the second of its packet. Other seconds have no row, because years can lie between two frames of a capture.
-- Reports that the control plane requests at a reset are counted separately (probes). Those of the last reset count in
-- the last second.
with

packets as (
    select * from packets
),

reports as (
    select * from report_stamps
),

ends as (
    select
        min(ts_ns) as first_ns,
        max(ts_ns) as last_ns
    from packets
),

sent as (
    select
        least((packets.ts_ns - ends.first_ns) // 1000000000, (ends.last_ns - ends.first_ns) // 1000000000) as second,
        count(*) as packets
    from packets
    cross join ends
    group by 1
),

reported as (
    select
        greatest(
            0, least((reports.ts_ns - ends.first_ns) // 1000000000, (ends.last_ns - ends.first_ns) // 1000000000)
        ) as second,
        count(*) filter (where not reports.probe) as reports,
        count(*) filter (where reports.probe) as probes
    from reports
    cross join ends
    group by 1
),

numbered as (
    select second
    from sent
    union
    select second
    from reported
),

final as (
    select
        numbered.second::uinteger as second,
        $of_sample as sample,  -- noqa: RF02
        numbered.second < (ends.last_ns - ends.first_ns) // 1000000000 as whole,
        coalesce(sent.packets, 0)::ubigint as packets,
        coalesce(reported.reports, 0)::ubigint as reports,
        coalesce(reported.probes, 0)::ubigint as probes
    from numbered
    cross join ends
    left join sent on numbered.second = sent.second
    left join reported on numbered.second = reported.second
)

select * from final
