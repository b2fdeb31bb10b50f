-- One row per sample: the bytes that the mirror should have copied between the first and the last captured frame, by
-- the port's counters, and the bytes of the capture, counted in the same way. Readings in between show the load between
-- them. For the two intervals that contain the start and the end, the part within is at least what was captured there
-- and at most what their counters counted: it is estimated from even traffic, or from the loss of the intervals in
-- between.
with

frames as (
    select * from frames
),

mirror as (
    select * from mirror
),

readings as (
    select
        sample,
        unnest(readings)[1] as at_ns,
        unnest(readings)[2] as n_bytes
    from mirror
),

intervals as (
    select
        sample,
        at_ns as from_ns,
        n_bytes as before,
        lead(at_ns) over in_order as to_ns,
        lead(n_bytes) over in_order - n_bytes as counted
    from readings
    window in_order as (partition by sample order by at_ns)
),

-- A new mirror session, or a busy switch, may start to copy after the sample's start: only between the first and the
-- last captured frame is it certain that the mirror copied.
copied as (
    select
        m.sample,
        greatest(m.start_ns, coalesce(min(f.ts_ns), m.start_ns)) as from_ns,
        least(m.end_ns, coalesce(max(f.ts_ns), m.end_ns)) as to_ns
    from mirror as m
    left join frames as f on m.sample = f.sample
    group by m.sample, m.start_ns, m.end_ns
),

overlapping as (
    select
        i.sample,
        i.from_ns,
        i.to_ns,
        i.counted,
        i.from_ns >= c.from_ns and i.to_ns <= c.to_ns as inside,
        greatest(0, least(i.to_ns, c.to_ns) - greatest(i.from_ns, c.from_ns)) / (i.to_ns - i.from_ns) as share,
        (least(i.to_ns, m.end_ns) - greatest(i.from_ns, m.start_ns)) / (i.to_ns - i.from_ns) as sample_share
    from intervals as i
    inner join mirror as m on i.sample = m.sample
    inner join copied as c on i.sample = c.sample
    where i.to_ns > i.from_ns and i.to_ns > m.start_ns and i.from_ns < m.end_ns
),

-- a queued frame may arrive after the end of the mirror session
arrivals as (
    select
        f.sample,
        least(greatest(f.ts_ns, m.start_ns), m.end_ns - 1) as at_ns,
        (f.wire_len + m.counter_overhead_bytes) * m.delivered_ratio as n_bytes
    from frames as f
    inner join mirror as m on f.sample = m.sample
),

-- one row per interval; frames outside of all intervals count only in the total
arrived as (
    select
        o.sample,
        o.from_ns,
        sum(a.n_bytes) as n_bytes
    from arrivals as a
    asof inner join overlapping as o on a.sample = o.sample and a.at_ns >= o.from_ns
    where a.at_ns < o.to_ns
    group by o.sample, o.from_ns
),

joined as (
    select
        o.*,
        m.buffer_bytes,
        m.buffer_low_bytes,
        m.capacity_bps,
        coalesce(a.n_bytes, 0) as captured
    from overlapping as o
    inner join mirror as m on o.sample = m.sample
    left join arrived as a on o.sample = a.sample and o.from_ns = a.from_ns
),

within as (
    select
        m.sample,
        coalesce(sum(j.counted) filter (where j.inside), 0) as counted,
        coalesce(sum(j.captured) filter (where j.inside), 0) as captured,
        bool_or(j.inside) as any_inside,
        -- counters of an interval and the capture differ by the queue's content at its start and end
        coalesce(
            max(j.counted / nullif(j.captured, 0)) filter (
                where j.inside and j.counted > j.captured + j.buffer_low_bytes
            ), 1
        ) as ratio,
        -- more than the port can send and its queue can hold
        coalesce(bool_or(
            j.inside
            and j.counted * (1 - $margin_share) > j.capacity_bps * (j.to_ns - j.from_ns) / 8e9 + j.buffer_bytes
        ), false) as overloaded
    from mirror as m
    left join joined as j on m.sample = j.sample
    group by m.sample
),

ends as (
    select
        w.sample,
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
    from within as w
    left join joined as j on w.sample = j.sample and not j.inside
    group by w.sample
),

captured as (
    select
        sample,
        sum(n_bytes) as n_bytes
    from arrivals
    group by sample
),

covered as (
    select
        m.sample,
        min(r.at_ns) <= any_value(m.start_ns) and max(r.at_ns) >= any_value(m.end_ns) as complete,
        any_value(m.buffer_bytes) as buffer_bytes
    from mirror as m
    left join readings as r on m.sample = r.sample
    group by m.sample
),

-- the same between the start and the end of the sample, even if the mirror did not copy all this time
peaks as (
    select
        sample,
        sum(sample_share * counted) as sample_even_octets,
        sum(counted) as sample_high_octets,
        max(counted * 8e9 / (to_ns - from_ns)) as peak_bps,
        arg_max(to_ns - from_ns, counted * 8e9 / (to_ns - from_ns)) as peak_ns
    from overlapping
    group by sample
),

final as (
    select
        w.sample,
        coalesce(c.n_bytes, 0) as captured_octets,
        greatest(coalesce(c.n_bytes, 0), w.counted + e.low) as offered_low_octets,
        case when v.complete then greatest(coalesce(c.n_bytes, 0), w.counted + e.high) end as offered_high_octets,
        w.counted + e.even as even_octets,
        p.sample_even_octets,
        case when v.complete then greatest(coalesce(c.n_bytes, 0), p.sample_high_octets) end as sample_high_octets,
        coalesce(w.any_inside, false) as any_inside,
        w.ratio as counted_ratio,
        w.overloaded,
        p.peak_bps,
        p.peak_ns
    from within as w
    inner join ends as e on w.sample = e.sample
    inner join covered as v on w.sample = v.sample
    left join captured as c on w.sample = c.sample
    left join peaks as p on w.sample = p.sample
)

select * from final
