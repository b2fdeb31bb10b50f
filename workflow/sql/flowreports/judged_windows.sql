-- One row per flow and window of compared_windows, with bounds of the bytes and the reason for which the value may be
-- off by more than 10 %; null if it cannot, as far as reports show. Reasons: outside (the program does not see the
-- flow), extra (a flow of the collector alone), no_report (the flow has none), no_probe (the run has no reports at
-- resets, so that counts are lost there), sketch_load (more than 1 % of the flows may have counts that are too large),
-- unreported (no report has packets of the window), no_slot and straddle (packets of a report may be on both sides of
-- the window's edge, of a flow without and with a slot).
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

load as (
    select * from sketch_load
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
        load.shared
    from windows
    cross join load
    inner join flows on windows.flow = flows.flow
    left join bounds on windows.flow = bounds.flow and windows.window_ns = bounds.window_ns
),

final as (
    select
        sample,
        flow,
        window_ns,
        bytes,
        bytes_measured,
        bytes_low,
        bytes_high,
        case
            when outside then 'outside'
            when found = 'collector' then 'extra'
            when found = 'exact' then 'no_report'
            when not $probes then 'no_probe'
            when shared > 0.01 then 'sketch_load'
            when bytes_high = 0 then 'unreported'
            when
                bytes_measured > 1.1 * bytes_low::double or bytes_measured < 0.9 * bytes_high::double
                then case when has_slot then 'straddle' else 'no_slot' end
        end as reason
    from joined
)

select * from final
