-- One row per site, port and flow, stitched across the samples of the port. A flow without a time in any of its samples
-- has no duration; a flow without a time in one of them has no rate, because the time of that sample's bytes is
-- unknown. Times of misdated samples count only if all samples of the flow are misdated. dated: the flow has a sample
-- that is not misdated, or all samples are misdated.
with

samples as (
    select * from traffic
),

flows as (
    select * from flows
),

timeline as (
    select * from timeline
),

labels as (
    select
        site,
        port,
        flow_id,
        app,
        sum(frames) as frames,
        min(app_by) as app_by  -- flow sorts before tshark; null: ICMP without data
    from flows
    where app is not null
    group by site, port, flow_id, app
),

labeled as (
    select
        site,
        port,
        flow_id,
        first(app order by frames desc, app asc) as app,
        min(app_by) as app_by
    from labels
    group by site, port, flow_id
),

numbered as (
    select
        s.sample,
        s.misdated,
        not coalesce(s.misdated and bool_or(not s.misdated) over (), false) as dated,
        t.gaps_before,
        t.gap_ns_before,
        row_number() over (order by s.sample) as place
    from samples as s
    inner join timeline as t on s.sample = t.sample
),

observed as (
    select
        f.*,
        s.* exclude (sample)  -- noqa: RF02
    from flows as f
    inner join numbered as s on f.sample = s.sample
),

-- Usually there are no misdated samples, and this is empty.
misdated_flows as (
    select distinct
        site,
        port,
        flow_id
    from observed
    where misdated
),

dated_elsewhere as (
    select distinct
        o.site,
        o.port,
        o.flow_id
    from observed as o
    semi join misdated_flows as m on o.site = m.site and o.port = m.port and o.flow_id = m.flow_id
    where not o.misdated
),

marked as (
    select
        o.*,
        coalesce(o.misdated, false) and d.flow_id is not null as misplaced
    from observed as o
    left join dated_elsewhere as d on o.site = d.site and o.port = d.port and o.flow_id = d.flow_id
),

placed as (
    select
        * replace (
            case when not misplaced then first_ns end as first_ns,
            case when not misplaced then last_ns end as last_ns,
            case when not misplaced then gaps_before end as gaps_before,
            case when not misplaced then gap_ns_before end as gap_ns_before
        ),
        -- in order of time and sample, without a time last
        coalesce(case when not misplaced then first_ns end, 9223372036854775807)::hugeint * 4294967296 + place as rank
    from marked
),

stitched as (
    select
        f.site,
        f.port,
        f.flow_id,
        any_value(f.vlan) as vlan,
        any_value(f.mpls) as mpls,
        any_value(f.tunnels) as tunnels,
        any_value(f.ip_version) as ip_version,
        any_value(f.src) as src,
        any_value(f.dst) as dst,
        any_value(f.ip_proto) as ip_proto,
        any_value(f.src_port) as src_port,
        any_value(f.dst_port) as dst_port,
        count(*)::ubigint as samples,
        min(f.first_ns) as first_ns,
        max(f.last_ns) as last_ns,
        max(f.last_ns) - min(f.first_ns) as duration_ns,
        sum(f.frames)::ubigint as frames,
        sum(f.wire_bytes)::ubigint as wire_bytes,
        sum(f.ip_bytes)::ubigint as ip_bytes,
        sum(f.payload_bytes)::ubigint as payload_bytes,
        (max(f.gaps_before) - min(f.gaps_before))::ubigint as gaps,
        max(f.gap_ns_before) - min(f.gap_ns_before) as gap_ns,
        bool_and(f.first_ns is not null) as timed,
        bool_or(f.dated) as dated,
        arg_min(f.cut_start, f.rank) as cut_start,
        bool_and(f.cut_end) as cut_end
    from placed as f
    group by f.site, f.port, f.flow_id
),

rated as (
    select
        *,
        case when timed then duration_ns - gap_ns end as observed_ns
    from stitched
),

final as (
    select
        o.* exclude (timed),  -- noqa: RF02
        l.app,
        l.app_by,
        case
            when o.observed_ns > 0
                then ((o.wire_bytes::hugeint * 8000000000 + o.observed_ns // 2) // o.observed_ns)::ubigint
        end as rate_bps
    from rated as o
    left join labeled as l on o.site = l.site and o.port = l.port and o.flow_id = l.flow_id
)

select * from final
