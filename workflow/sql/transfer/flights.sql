-- One row per segment of the streams in `wanted`: the bytes in flight after it, from the last acknowledged byte to the
-- highest byte sent. A receiver's window limits exactly this, so segments received out of order count.
with

segments as (
    select * from segments
),

acks as (
    select * from acknowledgments
),

sent as (
    select
        stream,
        frame,
        max(data_end) over (partition by stream order by frame) as highest
    from segments
),

final as (
    select
        sent.stream,
        greatest(0, sent.highest - coalesce(acks.ack_at, 0)) as flight_bytes
    from sent
    asof left join acks
        on sent.stream = acks.stream and sent.frame >= acks.frame
)

select * from final
