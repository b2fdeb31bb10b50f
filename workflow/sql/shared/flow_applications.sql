-- One row per flow whose application is not column app of the flow table. ICMP is its own application, because its data
-- is that of an echo or a quoted packet. If app is a format of the content of another protocol, such as text in HTTP or
-- a certificate in TLS, the application is the protocol with the most frames; in case of a tie, the alphabetically
-- first one. A format without such a protocol, such as JSON directly over TCP, is an application.
with

flows as (
    select * from flows
),

protocols as (
    select * from protocols
),

-- Tokens without a label are part of the previous header, such as certificates. Unknown payload (data) is the
-- application only of flows without any other.
formats as (
    select token
    from protocols
    where (layer = 'payload' and token <> 'data') or (layer = 'app' and label = '')
),

not_applications as (
    select label from protocols
    where layer <> 'app'
),

tokens as (
    select
        label,
        min(token) as token
    from protocols
    where layer = 'app' and label <> ''
    group by label
),

runs as (
    select
        f.sample,
        f.flow,
        unnest(f.stacks) as run
    from flows as f
    semi join formats on f.app = formats.token
    where f.ip_proto not in (1, 58)
),

headers as (
    select
        sample,
        flow,
        run.frames,
        unnest(
            list_distinct(
                string_split(regexp_extract(run.stack, '^.*/(?:TCP|UDP|UDPLite|SCTP|DCCP)/(.*)$', 1), '/')
            )
        ) as label
    from runs
),

counted as (
    select
        h.sample,
        h.flow,
        coalesce(t.token, lower(h.label)) as app,
        sum(h.frames) as frames
    from headers as h
    left join tokens as t on h.label = t.label
    anti join not_applications as n on h.label = n.label
    where h.label <> ''
    group by h.sample, h.flow, coalesce(t.token, lower(h.label))
),

final as (
    select
        sample,
        flow,
        first(app order by frames desc, app asc) as app
    from counted
    group by sample, flow
    union all
    select
        sample,
        flow,
        case when ip_proto = 1 then 'icmp' else 'icmpv6' end as app
    from flows
    where ip_proto in (1, 58)
)

select * from final
