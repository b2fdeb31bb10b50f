-- One row per flow and window of compared_windows, with bounds of the bytes and the reason why the value may be wrong
-- by more than 10 %; null if reports show that it is not. Reasons: outside (the program does not parse the flow), extra
-- (only the collector has the flow), no_report (the flow has no report), time_reversal (in the file, packets of the
-- flow and window, or of earlier windows, follow frames of later windows: reversed_spans), no_probe (the run has no
-- reports at resets, so counts are lost there), sketch_load (the flow may share its cells with other flows of the epoch
-- in all rows of the sketch, so counts may be too large), unreported (no report has packets of the window), no_slot and
-- straddle (packets of a report may be on both sides of the window's edge, for a flow without and with a slot). A
-- count-min sketch never counts too little, so bytes_high is valid even if counts are too large (sketch_load), but
-- bytes_low is null then. Both are null if reports do not cover all packets of the window (the other reasons except
-- no_slot and straddle).
with

windows as (
    select * from compared_windows
),

bounds as (
    select * from window_bounds
),

flows as (
    select * from compared_flows
),

reversals as (
    select * from reversed_spans
),

joined as (
    select
        windows.sample,
        windows.flow,
        windows.window_ns,
        windows.bytes,
        windows.bytes_measured,
        flows.found,
        flows.outside,
        coalesce(bounds.bytes_low, 0) as bytes_low,
        coalesce(bounds.bytes_high, 0) as bytes_high,
        coalesce(bounds.has_slot, false) as has_slot,
        coalesce(bounds.shared, false) as shared,
        coalesce(windows.window_ns <= reversals.until_ns, false) as reversed
    from windows
    inner join flows on windows.flow = flows.flow
    left join bounds on windows.flow = bounds.flow and windows.window_ns = bounds.window_ns
    asof left join reversals on windows.flow = reversals.flow and windows.window_ns >= reversals.from_ns
),

reasoned as (
    select
        *,
        case
            when outside then 'outside'
            when found = 'collector' then 'extra'
            when found = 'exact' then 'no_report'
            when reversed then 'time_reversal'
            when not $probes then 'no_probe'
            when bytes_high = 0 then 'unreported'
            when shared then 'sketch_load'
            when
                bytes_measured > 1.1 * bytes_low::double or bytes_measured < 0.9 * bytes_high::double
                then case when has_slot then 'straddle' else 'no_slot' end
        end as reason
    from joined
),

final as (
    select
        sample,
        flow,
        window_ns,
        bytes,
        bytes_measured,
        case when reason is null or reason in ('no_slot', 'straddle') then bytes_low end as bytes_low,
        case when reason is null or reason in ('no_slot', 'straddle', 'sketch_load') then bytes_high end as bytes_high,
        reason
    from reasoned
)

select * from final
