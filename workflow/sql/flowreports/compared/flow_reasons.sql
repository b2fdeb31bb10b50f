-- One row per subject and reason of compared_flows (none: without a reason), with the number of flows. Subject report
-- covers all flows; loss and acknowledged_bytes cover flows with an exact value and a report.
with

flows as (
    select * from compared_flows
),

reasons as (
    select
        'report' as subject,
        report_reason as reason
    from flows
    union all
    select
        'loss' as subject,
        loss_reason as reason
    from flows
    where found = 'both' and not outside and missing_bytes is not null
    union all
    select
        'acknowledged_bytes' as subject,
        acknowledged_reason as reason
    from flows
    where found = 'both' and not outside and acknowledged_bytes is not null
),

final as (
    select
        $of_sample as sample,  -- noqa: RF02
        subject,
        coalesce(reason, 'none') as reason,
        count(*)::ubigint as flows,
        count(*) / sum(count(*)) over (partition by subject) as share
    from reasons
    group by subject, coalesce(reason, 'none')
)

select * from final
