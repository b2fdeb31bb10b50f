-- One row per sample: numbers of frames, timestamps, and sources of decisions.
with

frames as (
    select * from frames
),

samples as (
    select * from samples
),

stamped as (
    select
        sample,
        ts_ns,
        wire_len,
        flow,
        l4_by,
        app_by,
        issue,
        stack,
        lag(ts_ns) over (partition by sample order by frame) as before_ns
    from frames
),

final as (
    select
        samples.sample,
        count(stamped.sample)::ubigint as frames,
        coalesce(sum(stamped.wire_len), 0)::ubigint as wire_bytes,
        count(stamped.flow)::ubigint as flow_frames,
        min(stamped.ts_ns) as first_ns,
        max(stamped.ts_ns) as last_ns,
        (count(*) filter (where stamped.ts_ns = stamped.before_ns))::ubigint as equal_stamps,
        (count(*) filter (where stamped.ts_ns < stamped.before_ns))::ubigint as time_reversals,
        (count(*) filter (where stamped.sample is not null and stamped.ts_ns is null))::ubigint as untimed_frames,
        (
            count(*) filter (where stamped.issue not in ('no_timestamp', 'implausible_timestamp'))
        )::ubigint as issue_frames,
        -- a link type for private use, of which tshark prints only the number
        (
            count(*) filter (
                where stamped.issue = 'unsupported_link_type' or stamped.stack in ('Data', 'USER_DLT', 'USER_DLT/Data')
            )
        )::ubigint as undissected_frames,
        (count(*) filter (where stamped.l4_by = 'tshark'))::ubigint as l4_tshark_frames,
        (count(*) filter (where stamped.l4_by = 'unsure'))::ubigint as l4_unsure_frames,
        (count(*) filter (where stamped.app_by = 'flow'))::ubigint as app_flow_frames,
        (count(*) filter (where stamped.sample is not null and stamped.app_by is null))::ubigint as app_undecided_frames
    from samples
    left join stamped on samples.sample = stamped.sample
    group by samples.sample
    order by samples.sample
)

select * from final
