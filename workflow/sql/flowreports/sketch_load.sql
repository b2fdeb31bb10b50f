-- One row: the chance that a flow shares its cell with another flow in every row of the sketch, so that its counts are
-- too large: (1 - exp(-flows / cells)) ^ rows, with the most flows of an epoch (Cormode and Muthukrishnan 2005, with
-- hashes taken as random). Epochs are counted from the first report.
with

counted as (
    select count(distinct number) as flows
    from all_series
    group by ts_ns // $epoch_ns
),

final as (
    select power(1 - exp(-coalesce(max(flows), 0) / $cells::double), $rows) as shared
    from counted
)

select * from final
