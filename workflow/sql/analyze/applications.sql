-- One row per sample and application; flows without an application are counted in a separate row. app_by is flow if the
-- label of at least one frame was carried over from another frame of its flow.
with

flows as (
    select * from flows
),

flow_applications as (
    select * from flow_applications
),

labeled as (
    select
        f.sample,
        coalesce(a.app, f.app) as app,
        f.app_by,
        f.frames,
        f.wire_bytes,
        f.payload_bytes
    from flows as f
    left join flow_applications as a on f.sample = a.sample and f.flow = a.flow
),

final as (
    select
        sample,
        app,
        min(app_by) as app_by,  -- flow sorts before tshark
        count(*)::ubigint as flows,
        sum(frames)::ubigint as frames,
        sum(wire_bytes)::ubigint as wire_bytes,
        sum(payload_bytes)::ubigint as payload_bytes
    from labeled
    group by sample, app
    order by sample, app
)

select * from final
