-- One row per frame with TCP payload of the streams in `wanted`, in the order of the capture. data_at and data_end are
-- relative to the first payload byte of the stream; sequence numbers are modulo 2^32, and a step of less than half of
-- that is forward (RFC 9293, section 3.4). repeated: the frame begins below the highest byte sent before, which at the
-- sender is a retransmission, even if the capture lost the first one.
with

frames as (
    select * from frames
),

wanted as (
    select * from wanted
),

stepped as (
    select
        wanted.stream,
        frames.frame,
        frames.ts_ns,
        frames.payload_len,
        frames.ip_len,
        frames.wire_len,
        frames.tcp_seq,
        coalesce(
            (frames.tcp_seq::bigint - lag(frames.tcp_seq) over streams + 6442450944) % 4294967296 - 2147483648, 0
        ) as step
    from frames
    inner join wanted on frames.flow = wanted.flow
    where frames.payload_len > 0 and frames.tcp_flags & 6 = 0
    window streams as (partition by wanted.stream order by frames.frame)
),

placed as (
    select
        *,
        first_value(tcp_seq) over (partition by stream order by frame) as first_seq,
        sum(step) over (partition by stream order by frame)::bigint as data_at
    from stepped
),

final as (
    select
        stream,
        frame,
        ts_ns,
        payload_len,
        ip_len,
        wire_len,
        first_seq,
        data_at,
        data_at + payload_len as data_end,
        coalesce(
            data_at < max(data_at + payload_len) over (
                partition by stream order by frame rows between unbounded preceding and 1 preceding
            ),
            false
        ) as repeated
    from placed
)

select * from final
