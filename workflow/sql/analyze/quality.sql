-- One row: numbers of frames, timestamps, and sources of decisions.
with

frames as (
    select * from frames
),

stamped as (
    select
        ts_ns,
        wire_len,
        flow,
        l4_by,
        app_by,
        issue,
        stack,
        lag(ts_ns) over (order by frame) as before_ns
    from frames
),

final as (
    select
        count(*)::ubigint as frames,
        coalesce(sum(wire_len), 0)::ubigint as wire_bytes,
        count(flow)::ubigint as flow_frames,
        min(ts_ns) as first_ns,
        max(ts_ns) as last_ns,
        (count(*) filter (where ts_ns = before_ns))::ubigint as equal_stamps,
        (count(*) filter (where ts_ns < before_ns))::ubigint as time_reversals,
        (count(*) filter (where ts_ns is null))::ubigint as untimed_frames,
        (count(*) filter (where issue not in ('no_timestamp', 'implausible_timestamp')))::ubigint as issue_frames,
        -- a link type for private use, of which tshark prints only the number
        (
            count(*) filter (where issue = 'unsupported_link_type' or stack in ('Data', 'USER_DLT', 'USER_DLT/Data'))
        )::ubigint as undissected_frames,
        (count(*) filter (where l4_by = 'tshark'))::ubigint as l4_tshark_frames,
        (count(*) filter (where l4_by = 'unsure'))::ubigint as l4_unsure_frames,
        (count(*) filter (where app_by = 'flow'))::ubigint as app_flow_frames,
        (count(*) filter (where app_by is null))::ubigint as app_undecided_frames
    from stamped
)

select * from final
