-- One row per sample, application label and its source; flows without a label are counted in a separate row.
with

flows as (
    select * from flows
),

final as (
    select
        sample,
        app,
        app_by,
        count(*)::ubigint as flows,
        sum(frames)::ubigint as frames,
        sum(wire_bytes)::ubigint as wire_bytes,
        sum(payload_bytes)::ubigint as payload_bytes
    from flows
    group by sample, app, app_by
    order by sample, app, app_by
)

select * from final
