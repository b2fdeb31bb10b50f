-- One row per iperf3 process with a prediction: the predicted and the measured end.
with

predicted as (
    select * from raw_prediction
),

measured as (
    select
        cell_id,
        run,
        flow,
        case when count(end_ns) = count(*) then max(end_ns) end as measured_ns
    from transfer_flows
    group by cell_id, run, flow
),

final as (
    select
        p.cell_id,
        p.run,
        p.flow,
        p.path,
        p.size_bytes,
        p.rate_bps,
        p.bottleneck,
        p.predicted_ns,
        m.measured_ns,
        (m.measured_ns - p.predicted_ns) / nullif(p.predicted_ns, 0)::double as error_share,
        p.best_ratio,
        p.together
    from predicted as p
    left join measured as m on p.cell_id = m.cell_id and p.run = m.run and p.flow = m.flow
)

select * from final
