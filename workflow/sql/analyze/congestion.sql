-- One row: whether the mirror of a sample lost frames, by the counters of the switch and by the captured frames.
-- Loss is a share of the offered bytes, as an interval. docs/collect.md has the method.
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

quality as (
    select count(*) filter (where ts_ns is null) as untimed_frames
    from frames
),

evidence as (
    select
        m.capacity_bps,
        m.whole and m.capacity_bps is not null and q.untimed_frames = 0 as usable,
        m.end_ns - m.start_ns as sample_ns,
        m.line_bps,
        m.buffer_bytes,
        b.*,
        t.*,
        a.*,
        b.occupied_bytes * 8e9 / nullif(m.end_ns - m.start_ns, 0) as mean_bps,
        t.tcp_missing_bytes / nullif(t.tcp_missing_bytes + t.tcp_seen_bytes, 0) as tcp_missing_share
    from mirror as m
    cross join balance as a
    cross join tcp_gaps as t
    cross join quality as q
    left join busy as b on true
),

factors as (
    select
        *,
        -- The highest rate that the port was offered in the time that fills its queue. Counters of intervals inside the
        -- sample bound what the capture lacks; without such, the traffic that they counted is taken for as uneven.
        case
            when not usable or busy_periods > 0 or peak_bps is null or offered_high_octets is null then null
            when mean_bps > 0 and any_inside then counted_ratio * window_peak_bps
            when mean_bps > 0 then greatest(1, peak_bps / mean_bps) * window_peak_bps
            when peak_bps = 0 then 0
        end as expected_peak_bps,
        $margin_share + buffer_bytes / greatest(offered_low_octets, 1) as margin,
        (line_bps - capacity_bps) * busy_ns / 8e9 + buffer_bytes as most_lost_bytes,
        tcp_share >= $tcp_share and tcp_missing_share is not null as tcp_known,
        1 - captured_octets / nullif(offered_low_octets, 0) as balance_low,
        case
            when offered_high_octets > 0 then 1 - captured_octets / offered_high_octets
            when offered_high_octets = 0 then 0
        end as balance_high
    from evidence
),

bounds as (
    select
        *,
        case
            when not usable then null
            when busy_periods = 0 then 0
            else greatest(
                0,
                case when any_inside then balance_low - margin end,
                case when tcp_known then tcp_loss_low - $tcp_margin_share end
            )
        end as low,
        case
            when not usable then null
            when busy_periods = 0 and occupied_bytes > 0 then $clear_share
            else least(
                1,
                case when balance_high is not null then greatest(0, balance_high) + margin end,
                case when tcp_known then tcp_missing_share + (1 - tcp_share) + $tcp_margin_share end,
                -- frames are lost only while the port is busy, and no faster than the mirrored port's lines send
                case
                    when line_bps > capacity_bps and occupied_bytes > 0
                        then 1 - occupied_bytes / (occupied_bytes + most_lost_bytes)
                end
            )
        end as high
    from factors
),

signs as (
    select
        *,
        busy_periods > 0 and tcp_missing_share >= $tcp_congested_share
        and tcp_missing_bytes >= $tcp_missing_frames * $frame_bytes as tcp_lossy,
        busy_periods > 0 and any_inside and balance_low > margin as bytes_missing
    from bounds
),

judged as (
    select
        *,
        case
            when capacity_bps is null then 'unknown'
            when not usable and peak_bps is null then 'unknown'
            when not usable then case when peak_bps > capacity_bps then 'congested' else 'at risk' end
            when tcp_lossy then 'congested'
            when bytes_missing then 'congested'
            when peak_bps > capacity_bps * (1 + $margin_share) then 'congested'
            when longest_full_bytes >= $full_buffers * buffer_bytes then 'congested'
            when greatest(peak_bps, expected_peak_bps) <= capacity_bps and expected_peak_bps is not null then 'clear'
            else 'at risk'
        end as verdict,
        case
            when not usable then 'counters'
            when tcp_lossy then 'TCP gaps'
            when bytes_missing then 'missing bytes'
            when peak_bps > capacity_bps * (1 + $margin_share) then 'counters'
            when longest_full_bytes >= $full_buffers * buffer_bytes then 'full rate'
            when busy_periods > 0 then 'busy periods'
            when expected_peak_bps is not null and greatest(peak_bps, expected_peak_bps) <= capacity_bps
                then 'peak below capacity'
            else 'peak rate'
        end as reason
    from signs
),

final as (
    select
        verdict,
        case when verdict <> 'unknown' then reason end as reason,
        case when verdict <> 'unknown' then least(coalesce(low, 0), coalesce(high, 1)) end as loss_low,
        case when verdict <> 'unknown' then greatest(coalesce(low, 0), coalesce(high, 1)) end as loss_high,
        capacity_bps::ubigint as capacity_bps,
        peak_bps,
        peak_ns::bigint as peak_ns,
        mean_bps,
        expected_peak_bps / nullif(peak_bps, 0) as burst_factor,
        busy_periods::ubigint as busy_periods,
        busy_ns,
        longest_run_bytes::ubigint as longest_run_bytes,
        longest_full_bytes::ubigint as longest_full_bytes,
        tcp_share,
        tcp_seen_bytes::ubigint as tcp_seen_bytes,
        tcp_missing_bytes::ubigint as tcp_missing_bytes,
        captured_octets,
        case when peak_bps is not null then offered_low_octets end as offered_low_octets,
        offered_high_octets
    from judged
)

select * from final
