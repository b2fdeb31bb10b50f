-- One row per flow and window in which packets of its reports were or may have been sent: bytes that were certainly
-- sent in it (all packets of their report were), and the sum of these and of bytes that may have been sent in it or in
-- another window. shared: at least one of these reports may share its cells (report_spans).
with

spans as (
    select
        *,
        from_ns // $length_ns * $length_ns as from_window_ns,
        until_ns // $length_ns * $length_ns as until_window_ns
    from report_spans
),

windows as (
    select * from compared_windows
),

certain as (
    select
        flow,
        from_window_ns as window_ns,
        sum(bytes)::hugeint as bytes,
        0::hugeint as uncertain_bytes,
        true as has_slot,
        bool_or(shared) as shared
    from spans
    where from_window_ns = until_window_ns
    group by flow, from_window_ns
),

uncertain as (
    select
        windows.flow,
        windows.window_ns,
        0::hugeint as bytes,
        sum(spans.bytes)::hugeint as uncertain_bytes,
        bool_and(spans.has_slot) as has_slot,
        bool_or(spans.shared) as shared
    from spans
    inner join windows
        on
            spans.flow = windows.flow
            and spans.from_window_ns <= windows.window_ns
            and spans.until_window_ns >= windows.window_ns
    where spans.from_window_ns < spans.until_window_ns
    group by windows.flow, windows.window_ns
),

sides as (
    select * from certain
    union all
    select * from uncertain
),

final as (
    select
        flow,
        window_ns,
        sum(bytes)::ubigint as bytes_low,
        (sum(bytes) + sum(uncertain_bytes))::ubigint as bytes_high,
        bool_and(has_slot) as has_slot,
        bool_or(shared) as shared
    from sides
    group by flow, window_ns
)

select * from final
