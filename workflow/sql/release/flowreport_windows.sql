-- One row per row of flowreport_windows, with the flows' new numbers.
with

windows as (
    select * from true_flowreport_windows
),

final as (
    select windows.* replace (renamed.flow as flow)
    from windows
    inner join renamed on windows.sample = renamed.sample and windows.flow = renamed.true_flow
)

select * from final
