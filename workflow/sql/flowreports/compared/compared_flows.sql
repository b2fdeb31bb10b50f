-- One row per flow of the digest or the collector: exact and measured values, null if one side has none. Both halves of
-- a handshake are assigned to the flow that began it, independent of the direction that reported them. Reports contain
-- ICMP types and identifiers, which the digest does not have, so inter-arrival times of ICMP are not compared.
-- report_reason: why the measured values do not cover the whole flow (null if they do): outside (the program does not
-- parse the flow), extra (only the collector has the flow), no_report (the flow has no report), earlier_report (packets
-- follow its newest report). loss_reason and acknowledged_reason: why the loss or the acknowledged bytes have no
-- measured value, or one that does not cover the whole flow: no_slot (the flow never had a slot), partly_followed (it
-- had no slot for some of its packets), no_acknowledgment (no report has one), earlier_report (more follows its newest
-- report). iat_at_report_ns: the exact inter-arrival time before the last packet at the time of the newest report.
with

exact as (
    select * from exact_flows
),

measured as (
    select * from measured_flows
),

packets as (
    select
        key,
        ts_ns,
        max_by(iat_ns, frame) as iat_ns
    from packets
    group by key, ts_ns
),

halves as (
    select
        way,
        max(rtt_syn_ns) as rtt_syn_ns,
        max(rtt_ack_ns) as rtt_ack_ns
    from measured
    group by way
),

begun as (
    select distinct way from exact
    where opens
),

joined as (
    select
        coalesce(e.vlan, m.vlan) as vlan,
        coalesce(e.mpls, m.mpls) as mpls,
        coalesce(e.ip_version, m.ip_version) as ip_version,
        coalesce(e.src, m.src) as src,
        coalesce(e.dst, m.dst) as dst,
        coalesce(e.ip_proto, m.ip_proto) as ip_proto,
        coalesce(e.src_port, m.src_port) as src_port,
        coalesce(e.dst_port, m.dst_port) as dst_port,
        coalesce(e.way, m.way) as way,
        coalesce(e.way_back, m.way_back) as way_back,
        e.key,
        coalesce(e.outside, false) as outside,
        coalesce(e.opens, false) as opens,
        m.reports,
        case when m.vlan is null then 'exact' when e.vlan is null then 'collector' else 'both' end as found,
        e.packets,
        m.packets as packets_measured,
        e.bytes,
        m.bytes as bytes_measured,
        case when coalesce(e.ip_proto, m.ip_proto) not in (1, 58) then e.iat_ns end as iat_ns,
        m.reported_ns,
        case when coalesce(e.ip_proto, m.ip_proto) not in (1, 58) then m.iat_ns end as iat_measured_ns,
        e.first_ns as start_ns,
        m.start_ns as start_measured_ns,
        e.last_ns as end_ns,
        m.end_ns as end_measured_ns,
        e.distinct_bytes + e.retransmitted_bytes as payload_bytes,
        m.payload_bytes as payload_measured_bytes,
        e.retransmitted_bytes,
        m.retransmitted_bytes as retransmitted_measured_bytes,
        e.missing_bytes,
        m.missing_bytes as missing_measured_bytes,
        m.uncertain_bytes,
        m.partly_followed,
        e.acknowledged_bytes,
        m.acknowledged_bytes as acknowledged_measured_bytes,
        e.acknowledged_ns,
        e.rtt_syn_ns,
        m.rtt_syn_ns as own_rtt_syn_ns,
        e.rtt_ack_ns,
        m.rtt_ack_ns as own_rtt_ack_ns
    from exact as e
    full outer join measured as m
        on
            e.vlan = m.vlan
            and e.mpls = m.mpls
            and e.ip_version = m.ip_version
            and e.src = m.src
            and e.dst = m.dst
            and e.ip_proto = m.ip_proto
            and e.src_port = m.src_port
            and e.dst_port = m.dst_port
),

reasoned as (
    select
        *,
        case
            when outside then 'outside'
            when found = 'collector' then 'extra'
            when found = 'exact' then 'no_report'
            when reported_ns < end_ns then 'earlier_report'
        end as report_reason,
        case
            when found <> 'both' or outside or missing_bytes is null then null
            when missing_measured_bytes is null then 'no_slot'
            when partly_followed then 'partly_followed'
            when reported_ns < end_ns then 'earlier_report'
        end as loss_reason,
        case
            when found <> 'both' or outside or acknowledged_bytes is null then null
            when acknowledged_measured_bytes is not null
                then case when reported_ns < acknowledged_ns then 'earlier_report' end
            when payload_measured_bytes is null then 'no_slot'
            when partly_followed then 'partly_followed'
            else 'no_acknowledgment'
        end as acknowledged_reason
    from joined
),

final as (
    select
        $of_sample as sample,  -- noqa: RF02
        (row_number() over (
            order by j.vlan, j.mpls, j.ip_version, j.src, j.dst, j.ip_proto, j.src_port, j.dst_port
        ) - 1)::uinteger as flow,
        array_to_string(j.vlan, '/') as vlan,
        array_to_string(j.mpls, '/') as mpls,
        j.* exclude (  -- noqa: RF02
            vlan, mpls, way, way_back, opens, own_rtt_syn_ns, own_rtt_ack_ns,  -- noqa: RF02
            reported_ns, partly_followed, acknowledged_ns  -- noqa: RF02
        ),
        case when j.ip_proto not in (1, 58) then p.iat_ns end as iat_at_report_ns,
        case
            when j.opens then coalesce(j.own_rtt_syn_ns, back.rtt_syn_ns)
            when b.way is null then j.own_rtt_syn_ns
        end as rtt_syn_measured_ns,
        case
            when j.opens then coalesce(j.own_rtt_ack_ns, back.rtt_ack_ns)
            when b.way is null then j.own_rtt_ack_ns
        end as rtt_ack_measured_ns
    from reasoned as j
    asof left join packets as p on j.key = p.key and j.reported_ns >= p.ts_ns
    left join halves as back on j.way_back = back.way
    left join begun as b on j.way_back = b.way
)

select * from final
