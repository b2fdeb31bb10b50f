-- One row per flow and window of time: the bytes that reports of that window added. Windows as in exact_windows.
with

series as (
    select * from measured_series
),

final as (
    select
        flow,
        ts_ns // $length_ns * $length_ns as window_ns,
        sum(bytes)::ubigint as bytes
    from series
    group by flow, ts_ns // $length_ns
)

select * from final
