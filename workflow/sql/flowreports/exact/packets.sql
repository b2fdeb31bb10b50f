-- One row per frame with a flow and a time, in file order: the input of the exact values. iat_ns: time since the
-- previous frame of the flow.
with

frames as (
    select * from frames
),

keys as (
    select * from keys
),

final as (
    select
        f.frame,
        k.key,
        k.way,
        k.way_back,
        f.ts_ns,
        f.ip_len,
        f.payload_len,
        f.tcp_flags,
        f.tcp_seq,
        f.tcp_ack,
        f.ts_ns - lag(f.ts_ns) over (partition by k.key order by f.frame) as iat_ns
    from frames as f
    inner join keys as k on f.flow = k.flow
    where f.ts_ns is not null
)

select * from final
