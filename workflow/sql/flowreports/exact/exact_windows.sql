-- One row per flow and time window with packets. Windows begin at multiples of their length since 1970.
with

packets as (
    select * from packets
),

final as (
    select
        key,
        ts_ns // $length_ns * $length_ns as window_ns,
        count(*)::ubigint as packets,
        sum(ip_len)::ubigint as bytes
    from packets
    group by key, ts_ns // $length_ns
)

select * from final
