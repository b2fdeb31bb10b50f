-- One row per site and application. app_by is flow if it is flow in one of the samples.
with

applications as (
    select * from applications
),

scopes as (
    select * from scopes
),

final as (
    select
        scopes.site,
        applications.app,
        min(applications.app_by) as app_by,  -- flow sorts before tshark
        sum(applications.flows)::ubigint as flows,
        sum(applications.frames)::ubigint as frames,
        sum(applications.wire_bytes)::ubigint as wire_bytes,
        sum(applications.payload_bytes)::ubigint as payload_bytes,
        count(*)::ubigint as samples
    from applications
    inner join scopes on applications.sample = scopes.sample
    group by scopes.site, applications.app
)

select * from final
