-- One row per flow and window of time in which the collector has bytes of it. Windows as in exact_windows; of a row
-- that several have together each takes the same share, rounded down cumulatively.
with

reported as (
    select * from reported_windows
),

numbers as (
    select * from measured_numbers
),

named as (
    select
        numbers.flow,
        reported.window_ns,
        reported.windows,
        reported.bytes,
        unnest(range(reported.windows::bigint)) as place
    from reported
    inner join numbers on reported.flow = numbers.number
    where reported.bytes > 0
),

shares as (
    select
        flow,
        window_ns + place * $length_ns as window_ns,
        bytes::hugeint * (place + 1) // windows - bytes::hugeint * place // windows as bytes
    from named
),

final as (
    select
        flow,
        window_ns,
        sum(bytes)::ubigint as bytes
    from shares
    group by flow, window_ns
    having sum(bytes) > 0
)

select * from final
