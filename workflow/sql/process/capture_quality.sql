-- One row per sample: losses, clock resolution, observed time, and the sources of its headers.
with

samples as (
    select * from samples
),

quality as (
    select * from quality
),

congestion as (
    select * from congestion
),

silences as (
    select * from silences
),

-- a misdated sample would add years to the campaign
campaign as (
    select max(end_ns) - min(start_ns) as campaign_ns
    from samples
    where not misdated
),

-- time that each sample of a port adds to that of the previous samples
added as (
    select
        site,
        port,
        greatest(
            end_ns - greatest(
                start_ns,
                max(end_ns) over (
                    partition by site, port order by start_ns, sample rows between unbounded preceding and 1 preceding
                )
            ),
            0
        ) as covered_ns
    from samples
    where not misdated
),

ports as (
    select
        site,
        port,
        sum(covered_ns) as covered_ns
    from added
    group by site, port
),

losses as (
    select
        sample,
        case when mirror_delivered is not null then mirror_offered end::hugeint as offered,
        -- frames that passed the filter but were not sampled are not lost
        (frames + coalesce(sampled_out, 0))::hugeint as kept,
        -- counters are not read at the same instant: more delivered than offered is not a negative loss
        case when mirror_offered < mirror_delivered then 0 else mirror_offered - mirror_delivered end::bigint
            as mirror_lost,
        dropped_interface::bigint as interface_lost,
        dropped_kernel::bigint as kernel_lost,
        case when frames_captured < frames then 0 else frames_captured - frames end::bigint as file_lost
    from samples
),

lost as (
    select
        sample,
        offered,
        kept,
        coalesce(mirror_lost, 0)::hugeint as lost_before,
        (coalesce(interface_lost, 0) + coalesce(kernel_lost, 0) + coalesce(file_lost, 0))::hugeint as lost_after,
        (mirror_lost is not null)::int + (interface_lost is not null)::int
        + (kernel_lost is not null)::int + (file_lost is not null)::int as stages_known,
        coalesce(mirror_lost, 0) + coalesce(interface_lost, 0)
        + coalesce(kernel_lost, 0) + coalesce(file_lost, 0) as frames_lost,
        -- a complete file does not show frames that never reached it
        coalesce(mirror_lost, interface_lost, kernel_lost, nullif(file_lost, 0)) is not null as counted
    from losses
),

shares as (
    select
        sample,
        -- Losses of the mirror are a share of all frames, the others of those that pass the filter: the captured share
        -- is (1 - lost_before / offered) * (kept / (kept + lost_after)). With a single division, only the last step is
        -- rounded.
        case
            when offered > 0 and kept + lost_after > 0
                then
                    (lost_before * (kept + lost_after) + (offered - lost_before) * lost_after)
                    / (offered * (kept + lost_after))
            when offered > 0 then lost_before / offered
            else lost_after / nullif(kept + lost_after, 0)
        end as loss_share
    from lost
),

final as (
    select
        s.site,
        s.port,
        s.direction,
        s.sample,
        s.restriction,
        s.excluded,
        s.method,
        s.snaplen,
        s.filtered,
        s.one_in,
        case when s.one_in = 1 then 0 else s.sampled_out end::ubigint as sampled_out,
        q.frames,
        q.wire_bytes,
        s.frames_received,
        s.frames_captured,
        s.dropped_kernel,
        s.dropped_interface,
        s.mirror_offered,
        s.mirror_delivered,
        s.mirror_offered_bytes,
        s.mirror_delivered_bytes,
        c.verdict as mirror_verdict,
        c.reason as mirror_verdict_by,
        c.loss_low as mirror_loss_low,
        c.loss_high as mirror_loss_high,
        case when l.counted then l.frames_lost::ubigint end as lost_frames,
        case when l.counted then h.loss_share end as loss_share,
        l.stages_known::ubigint as loss_stages_known,
        s.clock_resolution_ns,
        case
            when q.frames > 1 and q.first_ns is not null then q.equal_stamps / (q.frames - 1)
        end as equal_stamps_share,
        q.time_reversals,
        q.untimed_frames,
        s.implausible_times as implausible_frames,
        s.requested_start_ns,
        s.requested_end_ns,
        s.start_ns as actual_start_ns,
        s.end_ns as actual_end_ns,
        s.actual_by,
        s.misdated,
        s.end_ns - s.start_ns as duration_ns,
        i.silence_ns,
        i.longest_silence_ns,
        case when not s.misdated then (s.end_ns - s.start_ns) / nullif(w.campaign_ns, 0) end as coverage_share,
        p.covered_ns / nullif(w.campaign_ns, 0) as port_coverage_share,
        q.issue_frames,
        q.undissected_frames,
        q.l4_tshark_frames,
        q.l4_unsure_frames,
        q.app_flow_frames,
        q.app_undecided_frames,
        s.peers_ambiguous,
        s.file_issue,
        s.file_unread_bytes,
        s.engine,
        s.sha256
    from samples as s
    inner join quality as q on s.sample = q.sample
    inner join lost as l on s.sample = l.sample
    inner join shares as h on s.sample = h.sample
    left join congestion as c on s.sample = c.sample
    left join silences as i on s.sample = i.sample
    cross join campaign as w
    left join ports as p on s.site = p.site and s.port = p.port
)

select * from final
