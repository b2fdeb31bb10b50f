-- One row per site and version of the innermost network header.
with

ip_versions as (
    select * from ip_versions
),

scopes as (
    select * from scopes
),

totals as (
    select * from totals
),

intervals as (
    select * from intervals
    where kind = 'ip_version'
),

counted as (
    select
        scopes.site,
        ip_versions.ip_version,
        sum(ip_versions.frames)::ubigint as frames,
        sum(ip_versions.wire_bytes)::ubigint as wire_bytes
    from ip_versions
    inner join scopes on ip_versions.sample = scopes.sample
    group by scopes.site, ip_versions.ip_version
),

final as (
    select
        c.site,
        c.ip_version,
        c.frames,
        c.wire_bytes,
        t.frames as total_frames,
        c.frames / nullif(t.frames, 0) as share,
        i.share_lo,
        i.share_hi,
        t.samples
    from counted as c
    inner join totals as t on c.site = t.site
    left join intervals as i on c.site = i.site and c.ip_version = i.category
)

select * from final
