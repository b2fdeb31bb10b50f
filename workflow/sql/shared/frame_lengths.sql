-- One row per sample, header stack and frame length: its frames, counted by TCP content.
with

frames as (
    select * from frames
),

final as (
    select
        sample,
        stack,
        wire_len,
        count(*) as frames,
        count(*) filter (where tcp_flags is not null and payload_len is not null) as tcp_frames,
        count(*) filter (where tcp_flags is not null and payload_len = 0) as no_payload_frames,
        count(*) filter (where tcp_flags = 16 and payload_len = 0) as ack_frames
    from frames
    group by sample, stack, wire_len
)

select * from final
