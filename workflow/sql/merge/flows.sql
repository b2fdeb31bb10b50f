-- One row per directed flow and sample. With pseudonyms, flow ids are computed again, because the site's name is part
-- of their hash, and names of a testbed's sites could be guessed.
with

samples as (
    select * from traffic
),

flows as (
    select * from catalog.flows
),

flow_applications as (
    select * from flow_applications
),

final as (
    select
        s.sample,
        s.site,
        s.port,
        case
            when $pseudonyms
                then md5(
                    to_json([
                        s.site,
                        f.vlan::varchar,
                        f.mpls::varchar,
                        f.tunnels::varchar,
                        f.src,
                        f.dst,
                        f.ip_proto::varchar,
                        f.src_port::varchar,
                        f.dst_port::varchar
                    ])::varchar
                )
            else f.flow_id
        end as flow_id,
        array_to_string(f.vlan, '/') as vlan,
        array_to_string(f.mpls, '/') as mpls,
        array_to_string(
            list_transform(
                f.tunnels,
                lambda t: concat_ws('*', t['type'], t['id'], t['position'])  -- noqa: RF02
            ),
            '/'
        ) as tunnels,
        f.ip_version,
        f.src,
        f.dst,
        f.ip_proto,
        f.src_port,
        f.dst_port,
        f.first_ns,
        f.last_ns,
        f.frames,
        f.wire_bytes,
        f.ip_bytes,
        f.payload_bytes,
        f.cut_start,
        f.cut_end,
        coalesce(a.app, f.app) as app,
        f.app_by
    from flows as f
    inner join samples as s on f.sample = s.directory
    left join flow_applications as a on f.sample = a.sample and f.flow = a.flow
)

select * from final
