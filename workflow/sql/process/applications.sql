-- One row per site, application label and its source.
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
        applications.app_by,
        sum(applications.flows)::ubigint as flows,
        sum(applications.frames)::ubigint as frames,
        sum(applications.wire_bytes)::ubigint as wire_bytes,
        sum(applications.payload_bytes)::ubigint as payload_bytes,
        count(*)::ubigint as samples
    from applications
    inner join scopes on applications.sample = scopes.sample
    group by scopes.site, applications.app, applications.app_by
)

select * from final
