-- One row per sample: whether its mirror lost frames, according to the switch counters and the captured frames. Loss is
-- an interval, as a share of the offered bytes. docs/collect.md describes the method.
with

mirror as (
    select * from mirror
),

busy as (
    select * from busy
),

tcp_gaps as (
    select * from tcp_gaps
),

balance as (
    select * from balance
),

id_gaps as (
    select * from id_gaps
),

runs as (
    select * from runs
),

-- Frames are lost only while the queue is full, and at most at the line rate of the mirrored port. The queue fills
-- first, and its content is sent after the last loss: both are part of the run, as are frames with late timestamps.
overflow as (
    select
        m.sample,
        coalesce(sum(greatest(
            0,
            (
                greatest(r.max_bytes, (r.to_ns - r.from_ns) * m.capacity_bps / 8e9) + b.late_ns * m.capacity_bps / 8e9
            ) * (m.line_bps / m.capacity_bps - 1)
            - m.fill_bytes * m.line_bps / m.capacity_bps
        )), 0) + any_value(m.buffer_bytes) as max_lost_bytes
    from mirror as m
    inner join busy as b on m.sample = b.sample
    left join runs as r on m.sample = r.sample
    group by m.sample
),

quality as (
    select
        sample,
        count(*) filter (where ts_ns is null) as untimed_frames
    from frames
    group by sample
),

evidence as (
    select
        m.sample,
        m.capacity_bps,
        m.counts_copies,
        m.unfiltered and m.capacity_bps is not null and coalesce(q.untimed_frames, 0) = 0 as usable,
        m.end_ns - m.start_ns as sample_ns,
        m.line_bps,
        m.buffer_bytes,
        m.buffer_low_bytes,
        m.fill_bytes,
        m.dropped_frames,
        m.drops_known,
        m.delivered_ratio,
        m.delivered_max_ratio,
        b.* exclude (sample),  -- noqa: RF02
        t.* exclude (sample),  -- noqa: RF02
        i.* exclude (sample),  -- noqa: RF02
        a.* exclude (sample),  -- noqa: RF02
        o.max_lost_bytes,
        b.occupied_bytes * 8e9 / nullif(m.end_ns - m.start_ns, 0) as mean_bps,
        coalesce(t.tcp_bytes / nullif(t.all_bytes, 0), 0) as tcp_share,
        coalesce(i.id_bytes / nullif(t.all_bytes, 0), 0) as id_share,
        t.tcp_sure_bytes / nullif(t.tcp_sure_bytes + t.tcp_seen_bytes, 0) as tcp_sure_share,
        t.tcp_missing_bytes * t.tcp_wire_ratio as tcp_missing_wire_bytes,
        t.tcp_seen_bytes * t.tcp_wire_ratio as tcp_seen_wire_bytes,
        -- Identifications skipped before the queue can have been full are skipped for other reasons; if k are observed
        -- in n frames, up to k + 3 + 2 sqrt(k) are possible (95 %; the rule of three, and a Poisson distribution).
        greatest(
            0,
            i.id_full_missing_bytes
            - (i.id_full_bytes + i.id_full_missing_bytes)
            * (i.id_other_missing + 3 + 2 * sqrt(i.id_other_missing))
            / (i.id_other_frames + i.id_other_missing + 3 + 2 * sqrt(i.id_other_missing))
        ) as id_lost_bytes
    from mirror as m
    inner join balance as a on m.sample = a.sample
    inner join tcp_gaps as t on m.sample = t.sample
    inner join id_gaps as i on m.sample = i.sample
    left join overflow as o on m.sample = o.sample
    left join quality as q on m.sample = q.sample
    left join busy as b on m.sample = b.sample
),

factors as (
    select
        *,
        dropped_frames = 0 and drops_known as complete,
        1 - 1 / delivered_ratio as dropped_share,
        -- Upper bound of the ratio of offered to captured bytes in the time that fills the port's queue. Counters of
        -- intervals within the sample bound this ratio; without them, the counted traffic is assumed to be as uneven
        -- as the captured traffic.
        case
            when not usable or peak_bps is null or offered_high_octets is null then null
            when mean_bps > 0 and any_inside then counted_ratio
            when mean_bps > 0 then greatest(1, peak_bps / mean_bps)
            when peak_bps = 0 then 1
        end as missing_ratio,
        mean_bps * delivered_ratio >= $full_share * capacity_bps as full_throughout,
        tcp_share + id_share >= $gap_share and tcp_seen_wire_bytes + id_bytes > 0 as gaps_known,
        filling_bytes < fill_bytes as never_full,
        -- upper bound of the queue's content when the counters were read
        case when filling_bytes < fill_bytes then filling_bytes else buffer_bytes end as waiting_bytes,
        tcp_sure_bytes * tcp_wire_ratio + id_lost_bytes as gap_low_bytes,
        (tcp_missing_wire_bytes + id_max_missing_bytes) / nullif(
            tcp_missing_wire_bytes + id_max_missing_bytes + tcp_seen_wire_bytes + id_bytes, 0
        ) + greatest(0, 1 - tcp_share - id_share) as gap_high,
        1 - captured_octets * (delivered_max_ratio / delivered_ratio) / nullif(offered_low_octets, 0)
            as balance_low,
        case
            when offered_high_octets > 0 then 1 - captured_octets / offered_high_octets
            when offered_high_octets = 0 then 0
        end as balance_high
    from evidence
),

-- Gaps show the loss of mirror and receiver together; the receiver's part is removed, assuming that it dropped evenly.
shares as (
    select
        *,
        $gap_margin_share + $drop_margin_share * dropped_share as gap_margin,
        $margin_share + waiting_bytes / greatest(offered_low_octets, 1) + $drop_margin_share * dropped_share as margin,
        1 - (1 - gap_low_bytes / (gap_low_bytes + all_bytes)) * delivered_max_ratio as gap_low_share,
        1 - (1 - least(1, gap_high)) * delivered_ratio as gap_high_share,
        1 - (1 - tcp_sure_share) * delivered_max_ratio - $drop_margin_share * dropped_share as tcp_sign,
        1 - (1 - id_lost_bytes / (id_lost_bytes + all_bytes)) * delivered_max_ratio
        - $drop_margin_share * dropped_share as id_sign,
        -- The port sent without a pause, so the capture does not show the offered load. The counted traffic is assumed
        -- to be evenly distributed, with steady_factor for the excess.
        case
            when counts_copies and full_throughout and even_octets >= (1 + $steady_excess_share) * captured_octets
                then captured_octets + $steady_factor * (even_octets - captured_octets)
        end as steady_high_octets,
        -- The queue does not explain the missing frames: the mirror started late, stopped, or omitted frames.
        never_full and coalesce(
            sample_even_octets > (1 + $steady_excess_share) * captured_octets + waiting_bytes, false
        ) as partly_copied,
        -- A flow that shares its identification counter with others skips identifications without loss; switch counters
        -- that agree with the capture exclude more loss. Identifications skipped by a flow with its own counter are
        -- missing frames, lost by the mirror or before it.
        never_full and (
            (
                id_own_missing >= $gap_frames
                and id_own_missing > $clear_share * (id_own_frames + id_own_missing)
            ) or (
                not any_inside
                and coalesce(sample_even_octets, 0) < (1 - $steady_excess_share) * captured_octets
                and id_full_missing + id_other_missing >= $gap_frames
                and id_full_missing + id_other_missing
                > $clear_share * (id_full_frames + id_other_frames + id_full_missing + id_other_missing)
            )
        ) as ids_missing
    from factors
),

signs as (
    select
        *,
        drops_known and coalesce(tcp_sign >= $gap_congested_share, false)
        and tcp_sure_bytes >= $gap_frames * $frame_bytes as tcp_lossy,
        drops_known and coalesce(id_sign >= $gap_congested_share, false)
        and busy_periods > 0 and id_full_missing >= $gap_frames as ids_lossy,
        drops_known and any_inside and coalesce(balance_low, 0) > margin as bytes_missing,
        coalesce(overloaded, false) or (
            peak_bps > capacity_bps * (1 + $margin_share) and busy_ns >= $busy_congested_share * sample_ns
        ) as counters_exceed,
        longest_full_bytes >= $full_buffers * buffer_bytes as full_rate
    from shares
),

bounds as (
    select
        *,
        -- nothing contradicts that the capture has each frame that the port sent, and that the queue holds
        -- buffer_low_bytes or more
        complete and not (never_full and (tcp_lossy or bytes_missing) or partly_copied or ids_missing) as consistent,
        coalesce(
            complete and never_full and busy_periods = 0 and not (bytes_missing or partly_copied or ids_missing)
            and peak_bps <= capacity_bps and missing_ratio * filling_bytes < fill_bytes, false
        ) as calm,
        case
            when not usable then null
            -- the missing frames may be those that the receiver dropped
            when not drops_known then 0
            else greatest(
                0,
                case when any_inside then balance_low - margin end,
                case when gaps_known and (busy_periods > 0 or tcp_lossy) then gap_low_share - gap_margin end
            )
        end as low
    from signs
),

intervals as (
    select
        *,
        case
            when not usable then null
            else least(
                1,
                -- A port that receives more than its line rate drops frames after they were copied; the counters do not
                -- include these.
                case
                    when partly_copied then 1 - captured_octets / sample_high_octets + margin
                    when balance_high is not null and (counts_copies or (never_full and not ids_missing))
                        then greatest(0, balance_high) + margin
                end,
                case when steady_high_octets > 0 then 1 - captured_octets / steady_high_octets + margin end,
                case when gaps_known and not partly_copied then greatest(0, gap_high_share) + gap_margin end,
                case when consistent and never_full then $clear_share end,
                case
                    when consistent and runs_complete and line_bps > capacity_bps and occupied_bytes > 0
                        then 1 - occupied_bytes / (occupied_bytes + max_lost_bytes)
                end
            )
        end as high
    from bounds
),

judged as (
    select
        *,
        case
            when capacity_bps is null then 'unknown'
            when not usable and peak_bps is null then 'unknown'
            when not usable then case when overloaded then 'congested' else 'at risk' end
            -- there is evidence of loss, but a bound excludes loss
            when high <= $clear_share and calm then 'clear'
            when high <= $clear_share then 'at risk'
            when tcp_lossy and busy_periods > 0 then 'congested'
            when ids_lossy or bytes_missing or counters_exceed or full_rate then 'congested'
            else 'at risk'
        end as verdict,
        case
            when not usable then 'counters'
            when tcp_lossy and busy_periods > 0 then 'TCP gaps'
            when ids_lossy then 'IP identifications'
            when bytes_missing then 'missing bytes'
            when counters_exceed then 'counters'
            when full_rate then 'full rate'
            when busy_periods > 0 or not never_full then 'busy periods'
            when tcp_lossy then 'TCP gaps'
            when not complete then 'receiver drops'
            when partly_copied then 'counters above the capture'
            when ids_missing then 'IP identifications'
            when calm then 'peak below capacity'
            else 'peak rate'
        end as reason
    from intervals
),

final as (
    select
        sample,
        verdict,
        case when verdict <> 'unknown' then reason end as reason,
        case when verdict <> 'unknown' then least(coalesce(low, 0), coalesce(high, 1)) end as loss_low,
        case when verdict <> 'unknown' then greatest(coalesce(low, 0), coalesce(high, 1)) end as loss_high,
        capacity_bps::ubigint as capacity_bps,
        peak_bps,
        peak_ns::bigint as peak_ns,
        mean_bps,
        case when never_full and busy_periods = 0 then missing_ratio * window_peak_bps / nullif(peak_bps, 0) end
            as burst_factor,
        busy_periods::ubigint as busy_periods,
        busy_ns,
        longest_run_bytes::ubigint as longest_run_bytes,
        longest_full_bytes::ubigint as longest_full_bytes,
        filling_bytes::ubigint as filling_bytes,
        late_ns::bigint as late_ns,
        tcp_share,
        tcp_seen_bytes::ubigint as tcp_seen_bytes,
        tcp_missing_bytes::ubigint as tcp_missing_bytes,
        id_share,
        id_other_frames::ubigint as id_other_frames,
        id_other_missing::ubigint as id_other_missing,
        id_full_frames::ubigint as id_full_frames,
        id_full_missing::ubigint as id_full_missing,
        captured_octets,
        case when peak_bps is not null then offered_low_octets end as offered_low_octets,
        offered_high_octets
    from judged
    order by sample
)

select * from final
