-- One row per sample, header stack and flow (null: no flow): its frames. cut_frames: frames without a complete TCP
-- header.
with

frames as (
    select * from frames
),

final as (
    select
        sample,
        stack,
        flow,
        count(*)::ubigint as frames,
        sum(wire_len)::ubigint as wire_bytes,
        (count(*) filter (where tcp_flags is null or payload_len is null))::ubigint as cut_frames
    from frames
    group by sample, stack, flow
)

select * from final
