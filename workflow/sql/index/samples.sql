-- One row per listed sample: its manifest, its digest, when the port was observed, and whether the sample counts in
-- traffic statistics. A sample that was not collected has no manifest, and the site and port of the sheet. With
-- $traffic 'unfiltered', only samples of the least restricted kind that has frames count: samples without a
-- restriction, else with a filter, P4 program or sampling, else trials. A sample is misdated if it starts or ends more
-- than 10 years from the median start of the samples: an unset clock starts in 1970 or 2000. The median is of starts
-- since 1980, if there are any.
with

listed as (
    select * from listed
),

manifests as (
    select
        *,
        manifest_start_ns is not null and manifest_end_ns is not null as timed
    from manifests
),

digests as (
    select * from digests
),

restrictions as (
    select * from restrictions
),

-- A program without a control file that dropped no frame sent all; with a control file it may have changed frames.
programs as (
    select
        sample,
        method = 'fpga' and (p4_controlled or p4_not_sent is null or p4_not_sent > 0) as filtered
    from manifests
),

excluded as (
    select * from excluded
),

failed as (
    select * from failed
),

items as (
    select
        sample,
        unnest(restrictions) as item
    from manifests
),

declared as (
    select
        sample,
        bool_or(item.reason in ('filter', 'p4')) as filtered,
        max(try_cast(item.detail as ubigint)) filter (where item.reason = 'sampling') as one_in
    from items
    group by sample
),

ranked as (
    select
        d.sample,
        r.restriction,
        r.restriction_detail,
        d.frames,
        case
            when r.restriction is null then 0
            when not contains(r.restriction, 'trial') then 1
            else 2
        end as rank
    from digests as d
    left join restrictions as r on d.sample = r.sample
),

traffic as (
    select
        sample,
        restriction,
        restriction_detail,
        -- an empty sample cannot represent the traffic of others
        case
            when $traffic = 'unfiltered' and rank > min(rank) filter (where frames > 0) over () then restriction
        end as excluded
    from ranked
),

described as (
    select
        l.sample,
        coalesce(m.site, l.site) as site,
        coalesce(m.port, l.port) as port,
        d.acap,
        m.campaign,
        m.run,
        m.testbed,
        m.instance,
        m.direction,
        m.method,
        m.file,
        m.sha256,
        m.bytes,
        m.filter,
        -- for existing captures this is unknown, unless the sample sheet has it
        case
            when m.testbed <> 'files' or m.filter is not null then coalesce(m.filter, '') <> '' or p.filtered
            when o.filtered then true
        end as filtered,
        coalesce(m.one_in, o.one_in) as one_in,
        m.sampled_out,
        m.environment,
        m.trial,
        t.restriction,
        t.restriction_detail,
        case
            when d.sample is not null then t.excluded
            when l.sample in (select excluded.sample from excluded) then 'config'
            when l.sample in (select failed.sample from failed) then 'failed'
            else 'no acap'
        end as excluded,
        m.requested_start_ns,
        m.requested_end_ns,
        m.frames_received,
        m.frames_captured,
        m.dropped_kernel,
        m.dropped_interface,
        m.mirror_offered,
        m.mirror_delivered,
        m.mirror_offered_bytes,
        m.mirror_delivered_bytes,
        m.port_rate_bps,
        m.notes,
        d.version,
        d.engine,
        d.frames,
        d.flows,
        d.first_ns,
        d.last_ns,
        d.wire_bytes,
        d.captured_bytes,
        d.link_types,
        d.time_reversals,
        d.implausible_times,
        d.file_issue,
        d.file_unread_bytes,
        d.issues,
        d.l4_by,
        d.app_by,
        d.peers_ambiguous,
        d.tshark_version,
        d.tshark_preferences,
        d.vendors,
        d.parameters,
        coalesce(m.snaplen, d.snaplen) as snaplen,
        coalesce(d.clock_resolution_ns, m.clock_resolution_ns) as clock_resolution_ns,
        d.digest_site,
        d.digest_port,
        m.manifest_start_ns,
        m.manifest_end_ns,
        -- Frames with timestamps outside the manifest's time were observed, too, so the observed time includes them.
        case when m.timed then least(m.manifest_start_ns, d.first_ns) else d.first_ns end as start_ns,
        case when m.timed then greatest(m.manifest_end_ns, d.last_ns) else d.last_ns end as end_ns,
        case when m.timed then 'manifest' when d.first_ns is not null then 'frames' end as actual_by
    from listed as l
    left join manifests as m on l.sample = m.sample
    left join digests as d on l.sample = d.sample
    left join programs as p on l.sample = p.sample
    left join declared as o on l.sample = o.sample
    left join traffic as t on l.sample = t.sample
),

median_start as (
    select
        coalesce(
            quantile_disc(start_ns, 0.5) filter (where start_ns >= 315532800000000000),
            quantile_disc(start_ns, 0.5)
        ) as start_ns
    from described
    where acap is not null
),

final as (
    select
        d.*,
        greatest(abs(d.start_ns - m.start_ns), abs(d.end_ns - m.start_ns))
        > 10 * 31557600000000000 as misdated
    from described as d
    cross join median_start as m
    order by d.sample
)

select * from final
