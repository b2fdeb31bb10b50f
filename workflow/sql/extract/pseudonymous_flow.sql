-- The flow_id in the catalog for a flow_id in tables with pseudonyms; the latter is computed as in merge/flows.sql.
with

known_flows as (
    select * from flows
),

known_names as (
    select * from pseudonyms
),

final as (
    select distinct f.flow_id
    from known_flows as f
    inner join known_names as n on f.sample = n.true_sample
    where
        md5(
            to_json([
                n.site,
                f.vlan::varchar,
                f.mpls::varchar,
                f.tunnels::varchar,
                f.src,
                f.dst,
                f.ip_proto::varchar,
                f.src_port::varchar,
                f.dst_port::varchar
            ])::varchar
        ) = $flow_id
    order by f.flow_id
)

select * from final
