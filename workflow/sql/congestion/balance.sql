-- One row: the bytes that the mirror should have copied between the first and the last captured frame, by the port's
-- counters, and the bytes of the capture, counted in the same way. Readings in between show the load between them. For
-- the two intervals that contain the start and the end, the part within is at least what was captured there and at most
-- what they counted: estimated by even traffic, or by the loss of the intervals in between.
with

frames as (
    select * from frames
),

mirror as (
    select * from mirror
),

readings as (
    select
        unnest(readings)[1] as at_ns,
        unnest(readings)[2] as n_bytes
    from mirror
),

intervals as (
    select
        at_ns as from_ns,
        n_bytes as before,
        lead(at_ns) over in_order as to_ns,
        lead(n_bytes) over in_order - n_bytes as counted
    from readings
    window in_order as (order by at_ns)
),

-- A new mirror session, or a busy switch, may start to copy after the sample's start: only between the first and the
-- last captured frame is it certain that the mirror copied.
copied as (
    select
        greatest(m.start_ns, coalesce(min(f.ts_ns), m.start_ns)) as from_ns,
        least(m.end_ns, coalesce(max(f.ts_ns), m.end_ns)) as to_ns
    from mirror as m
    left join frames as f on true
    group by m.start_ns, m.end_ns
),

overlapping as (
    select
        i.from_ns,
        i.to_ns,
        i.counted,
        i.from_ns >= c.from_ns and i.to_ns <= c.to_ns as inside,
        greatest(0, least(i.to_ns, c.to_ns) - greatest(i.from_ns, c.from_ns)) / (i.to_ns - i.from_ns) as share,
        (least(i.to_ns, m.end_ns) - greatest(i.from_ns, m.start_ns)) / (i.to_ns - i.from_ns) as sample_share
    from intervals as i
    cross join mirror as m
    cross join copied as c
    where i.to_ns > i.from_ns and i.to_ns > m.start_ns and i.from_ns < m.end_ns
),

-- a queued frame may arrive after the end of the mirror session
arrivals as (
    select
        least(greatest(f.ts_ns, m.start_ns), m.end_ns - 1) as at_ns,
        (f.wire_len + m.counter_overhead_bytes) * m.delivered_ratio as n_bytes
    from frames as f
    cross join mirror as m
),

-- one row per interval; frames outside of all intervals count only in the total
arrived as (
    select
        o.from_ns,
        sum(a.n_bytes) as n_bytes
    from arrivals as a
    asof inner join overlapping as o on a.at_ns >= o.from_ns
    where a.at_ns < o.to_ns
    group by o.from_ns
),

joined as (
    select
        o.*,
        m.buffer_bytes,
        m.buffer_low_bytes,
        m.capacity_bps,
        coalesce(a.n_bytes, 0) as captured
    from overlapping as o
    cross join mirror as m
    left join arrived as a on o.from_ns = a.from_ns
),

within as (
    select
        coalesce(sum(counted) filter (where inside), 0) as counted,
        coalesce(sum(captured) filter (where inside), 0) as captured,
        bool_or(inside) as any_inside,
        -- counters of an interval and the capture differ by the queue's content at its start and end
        coalesce(
            max(counted / nullif(captured, 0)) filter (where inside and counted > captured + buffer_low_bytes), 1
        ) as ratio,
        -- more than the port can send and its queue can hold
        coalesce(bool_or(
            inside and counted * (1 - $margin_share) > capacity_bps * (to_ns - from_ns) / 8e9 + buffer_bytes
        ), false) as overloaded
    from joined
),

ends as (
    select
        coalesce(sum(j.captured), 0) as captured,
        coalesce(sum(greatest(j.captured, least(
            j.counted,
            j.share * j.counted,
            case when w.any_inside and w.captured > 0 then j.captured * w.counted / w.captured else j.captured end
        ))), 0) as low,
        coalesce(sum(j.share * j.counted), 0) as even,
        coalesce(sum(case
            when w.any_inside
                then greatest(j.captured, least(
                    j.counted,
                    greatest(
                        j.share * j.counted,
                        case when w.captured > 0 then j.captured * w.counted / w.captured else j.counted end
                    )
                ))
            else greatest(j.captured, j.counted)
        end), 0) as high
    from joined as j
    cross join within as w
    where not j.inside
),

captured as (
    select coalesce(sum(n_bytes), 0) as n_bytes
    from arrivals
),

covered as (
    select
        min(r.at_ns) <= any_value(m.start_ns) and max(r.at_ns) >= any_value(m.end_ns) as complete,
        any_value(m.buffer_bytes) as buffer_bytes
    from mirror as m
    left join readings as r on true
),

-- the same between the start and the end of the sample, even if the mirror did not copy all this time
peaks as (
    select
        sum(sample_share * counted) as sample_even_octets,
        sum(counted) as sample_high_octets,
        max(counted * 8e9 / (to_ns - from_ns)) as peak_bps,
        arg_max(to_ns - from_ns, counted * 8e9 / (to_ns - from_ns)) as peak_ns
    from overlapping
),

final as (
    select
        c.n_bytes as captured_octets,
        greatest(c.n_bytes, w.counted + e.low) as offered_low_octets,
        case when v.complete then greatest(c.n_bytes, w.counted + e.high) end as offered_high_octets,
        w.counted + e.even as even_octets,
        p.sample_even_octets,
        case when v.complete then greatest(c.n_bytes, p.sample_high_octets) end as sample_high_octets,
        coalesce(w.any_inside, false) as any_inside,
        w.ratio as counted_ratio,
        w.overloaded,
        p.peak_bps,
        p.peak_ns
    from captured as c
    cross join within as w
    cross join ends as e
    cross join covered as v
    cross join peaks as p
)

select * from final
