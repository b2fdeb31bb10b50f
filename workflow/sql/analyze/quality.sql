-- One row per sample: numbers of frames, timestamps, and sources of decisions.
with

frames as (
    select * from frames
),

flow_stacks as (
    select * from flow_stacks
),

samples as (
    select * from samples
),

counted as (
    select
        sample,
        sum(frames) as frames,
        sum(wire_bytes) as wire_bytes,
        sum(frames) filter (where flow is not null) as flow_frames
    from flow_stacks
    group by sample
),

-- Rows are in the order of the files, which is also that of the frames: DuckDB keeps this order in these clauses, even
-- with several threads (setting preserve_insertion_order). A window with an order would sort the rows.
stamped as (
    select
        sample,
        frame,
        ts_ns,
        lag(sample) over () as before_sample,
        lag(frame) over () as before_frame,
        lag(ts_ns) over () as before_ns
    from frames
),

successive as (
    select
        sample,
        ts_ns,
        case
            when coalesce(sample <> before_sample, true) then null
            when frame > before_frame then before_ns
            else error('frames are not in order')
        end as before_ns
    from stamped
),

times as (
    select
        sample,
        min(ts_ns) as first_ns,
        max(ts_ns) as last_ns,
        count(*) filter (where ts_ns = before_ns) as equal_stamps,
        count(*) filter (where ts_ns < before_ns) as time_reversals,
        count(*) filter (where ts_ns is null) as untimed_frames
    from successive
    group by sample
),

sources as (
    select
        sample,
        l4_by,
        app_by,
        issue,
        -- a link type for private use, of which tshark prints only the number
        stack in ('Data', 'USER_DLT', 'USER_DLT/Data') as is_unknown,
        count(*) as frames
    from frames
    group by sample, l4_by, app_by, issue, is_unknown
),

decided as (
    select
        sample,
        sum(frames) filter (where issue not in ('no_timestamp', 'implausible_timestamp')) as issue_frames,
        sum(frames) filter (where issue = 'unsupported_link_type' or is_unknown) as undissected_frames,
        sum(frames) filter (where l4_by = 'tshark') as l4_tshark_frames,
        sum(frames) filter (where l4_by = 'unsure') as l4_unsure_frames,
        sum(frames) filter (where app_by = 'flow') as app_flow_frames,
        sum(frames) filter (where app_by is null) as app_undecided_frames
    from sources
    group by sample
),

final as (
    select
        samples.sample,
        coalesce(counted.frames, 0)::ubigint as frames,
        coalesce(counted.wire_bytes, 0)::ubigint as wire_bytes,
        coalesce(counted.flow_frames, 0)::ubigint as flow_frames,
        times.first_ns,
        times.last_ns,
        coalesce(times.equal_stamps, 0)::ubigint as equal_stamps,
        coalesce(times.time_reversals, 0)::ubigint as time_reversals,
        coalesce(times.untimed_frames, 0)::ubigint as untimed_frames,
        coalesce(decided.issue_frames, 0)::ubigint as issue_frames,
        coalesce(decided.undissected_frames, 0)::ubigint as undissected_frames,
        coalesce(decided.l4_tshark_frames, 0)::ubigint as l4_tshark_frames,
        coalesce(decided.l4_unsure_frames, 0)::ubigint as l4_unsure_frames,
        coalesce(decided.app_flow_frames, 0)::ubigint as app_flow_frames,
        coalesce(decided.app_undecided_frames, 0)::ubigint as app_undecided_frames
    from samples
    left join counted on samples.sample = counted.sample
    left join times on samples.sample = times.sample
    left join decided on samples.sample = decided.sample
    order by samples.sample
)

select * from final
