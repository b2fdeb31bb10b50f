-- One row per flow and time window in which the collector counts bytes. Windows as in exact_windows. A row that covers
-- several windows is divided equally, rounded down cumulatively. It has no more parts than bytes: if it covers more
-- windows, such as after a clock was set forward by years, each byte is a part.
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
        reported.windows::hugeint as windows,
        reported.bytes::hugeint as bytes,
        least(reported.windows, reported.bytes)::hugeint as parts,
        unnest(range(least(reported.windows, reported.bytes)::bigint)) as part
    from reported
    inner join numbers on reported.flow = numbers.number
    where reported.bytes > 0
),

shares as (
    select
        flow,
        window_ns + ((windows * (part + 1) + parts - 1) // parts - 1)::bigint * $length_ns as window_ns,
        bytes * (part + 1) // parts - bytes * part // parts as bytes
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
