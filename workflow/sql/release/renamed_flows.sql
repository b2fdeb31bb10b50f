-- One row per flow of flowreport_flows: pseudonyms of its endpoints, and its number in the order of the new keys.
with

flows as (
    select * from true_flowreport_flows
),

named as (
    select
        flows.* replace (source.pseudonym as src, target.pseudonym as dst),
        flows.flow as true_flow
    from flows
    inner join pseudonyms as source on flows.src = source.address
    inner join pseudonyms as target on flows.dst = target.address
),

final as (
    select
        * replace ((row_number() over (
            partition by sample
            order by vlan, mpls, ip_version, src, dst, ip_proto, src_port, dst_port
        ) - 1)::uinteger as flow)
    from named
)

select * from final
