-- One row per sample: frames of non-TCP flows whose IPv4 identifications increase, and identifications that these flows
-- skipped. A flow is included if it has at least $id_steps steps, and at least $id_regular_share of them are from 1 to
-- $id_step; identifications of other flows are constant (RFC 6864 allows this for atomic datagrams), random, or count
-- too many other packets. A step beyond $id_gap in either direction begins a new range, so that one frame does not
-- count as many lost ones. `after_full`: the step is between two frames, at least one of which arrived while the queue
-- may have been full. Identifications skipped at other times are not losses of the mirror: packets lost before it, or
-- packets of other flows.
with

frames as (
    select * from frames
),

arrivals as (
    select * from arrivals
),

samples as (
    select * from samples
),

runs as (
    select
        sample,
        from_ns,
        full_ns,
        to_ns
    from runs
    where fills and to_ns > full_ns
),

steps as (
    select
        f.sample,
        f.flow,
        f.frame,
        a.at_ns as ts_ns,
        f.wire_len,
        -- the difference modulo 2^16, from -2^15 to 2^15 - 1
        (f.ip_id::int - lag(f.ip_id::int) over in_flow + 98304) % 65536 - 32768 as step
    from frames as f
    inner join arrivals as a on f.sample = a.sample and f.frame = a.frame
    where f.ip_id is not null and f.flow is not null and f.tcp_flags is null
    window in_flow as (partition by f.sample, f.flow order by f.frame)
),

marked as (
    select
        s.*,
        s.step is null or abs(s.step) > $id_gap as begins,
        coalesce(s.ts_ns >= r.full_ns and s.ts_ns < r.to_ns, false) as queue_full
    from steps as s
    asof left join runs as r on s.sample = r.sample and s.ts_ns >= r.from_ns
),

placed as (
    select
        *,
        sum(begins::int) over in_flow as stretch,
        sum(case when begins then 0 else step end) over in_flow as position,
        queue_full or coalesce(lag(queue_full) over in_flow, false) as after_full
    from marked
    window in_flow as (partition by sample, flow order by frame rows unbounded preceding)
),

-- a frame above all previous ones leaves a gap; one below fills an earlier gap
advances as (
    select
        *,
        position - max(position) over before_it as ahead
    from placed
    window before_it as (
        partition by sample, flow, stretch order by frame rows between unbounded preceding and 1 preceding
    )
),

by_flow as (
    select
        sample,
        flow,
        count(step) as steps,
        count(*) filter (where step between 1 and $id_step) as regular,
        count(*) filter (where step = 1) as successive,
        count(*) filter (where after_full) as full_frames,
        count(*) filter (where not after_full) as other_frames,
        coalesce(sum(case when ahead > 0 then ahead - 1 when ahead < 0 then -1 end) filter (where after_full), 0)
            as full_missing,
        coalesce(sum(case when ahead > 0 then ahead - 1 when ahead < 0 then -1 end) filter (where not after_full), 0)
            as other_missing,
        -- frames that may be lost after the flow's last one
        coalesce(max(ahead), 1) - 1 as tail_missing,
        sum(wire_len)::double as wire_bytes,
        avg(wire_len) as mean_bytes
    from advances
    group by sample, flow
),

counting as (
    select
        *,
        greatest(0, full_missing) as full_gaps,
        greatest(0, other_missing) as other_gaps
    from by_flow
    where steps >= $id_steps and regular >= $id_regular_share * steps
),

-- flows by decreasing share of skipped identifications, with cumulative bytes
ranked as (
    select
        *,
        full_gaps / nullif(full_frames + full_gaps, 0) as full_share,
        sum(wire_bytes) over (
            partition by sample
            order by full_gaps / nullif(full_frames + full_gaps, 0) desc nulls last, flow
        ) as until_bytes
    from counting
),

totals as (
    select
        sample,
        sum(wire_len) as all_bytes
    from frames
    group by sample
),

-- the share reached by flows with $gap_flows_share of all bytes, so that a single small flow does not decide
reached as (
    select
        r.sample,
        max(r.full_share) as share_cap
    from ranked as r
    inner join totals as t on r.sample = t.sample
    where r.until_bytes >= $gap_flows_share * t.all_bytes
    group by r.sample
),

capped as (
    select
        r.*,
        least(
            r.full_gaps, r.full_frames * coalesce(c.share_cap, 0) / (1 - coalesce(c.share_cap, 0))
        ) as sure_gaps
    from ranked as r
    left join reached as c on r.sample = c.sample
),

-- Sums of fractions are computed in a fixed order, because they depend on it.
final as (
    select
        s.sample,
        coalesce(sum(c.wire_bytes), 0) as id_bytes,
        coalesce(sum(c.full_frames), 0)::bigint as id_full_frames,
        coalesce(sum(c.other_frames), 0)::bigint as id_other_frames,
        coalesce(sum(c.full_gaps), 0)::bigint as id_full_missing,
        coalesce(sum(c.other_gaps), 0)::bigint as id_other_missing,
        -- flows with their own counter: most of their steps are 1 (c.successive)
        coalesce(sum(c.full_gaps + c.other_gaps) filter (where c.successive > c.steps / 2), 0)::bigint
            as id_own_missing,
        coalesce(sum(c.full_frames + c.other_frames) filter (where c.successive > c.steps / 2), 0)::bigint
            as id_own_frames,
        -- wire bytes, at the mean length of the flow's captured frames
        coalesce(sum(c.sure_gaps * c.mean_bytes order by c.full_share desc nulls last, c.flow asc), 0)
            as id_full_missing_bytes,
        coalesce(sum(
            (c.full_gaps + c.other_gaps + greatest(0, c.tail_missing)) * c.mean_bytes
            order by c.full_share desc nulls last, c.flow asc
        ), 0) as id_max_missing_bytes,
        coalesce(sum(c.full_frames * c.mean_bytes order by c.full_share desc nulls last, c.flow asc), 0)
            as id_full_bytes
    from samples as s
    left join capped as c on s.sample = c.sample
    group by s.sample
)

select * from final
