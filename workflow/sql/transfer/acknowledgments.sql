-- One row per acknowledgment that advances, of the streams in `wanted`: ack_at and ack_before are relative to the first
-- payload byte of the stream, as in segments.
with

frames as (
    select * from frames
),

wanted as (
    select * from wanted
),

origins as (
    select distinct
        stream,
        first_seq
    from segments
),

acks as (
    select
        wanted.stream,
        frames.frame,
        frames.ts_ns,
        (
            frames.tcp_ack::bigint - coalesce(lag(frames.tcp_ack) over streams, origins.first_seq) + 6442450944
        ) % 4294967296 - 2147483648 as step
    from frames
    inner join wanted on frames.flow = wanted.peer_flow
    inner join origins on wanted.stream = origins.stream
    where frames.tcp_ack is not null and frames.tcp_flags & 6 = 0
    window streams as (partition by wanted.stream order by frames.frame)
),

placed as (
    select
        *,
        sum(step) over (partition by stream order by frame)::bigint as ack_at
    from acks
),

compared as (
    select
        *,
        coalesce(
            max(ack_at) over (
                partition by stream order by frame rows between unbounded preceding and 1 preceding
            ),
            0
        ) as ack_before
    from placed
),

final as (
    select
        stream,
        frame,
        ts_ns,
        ack_at,
        ack_before
    from compared
    where ack_at > ack_before
)

select * from final
