-- One row per site and flow, as observed at its largest port, because two mirrored ports may capture the same frame.
with

port_flows as (
    select * from port_flows
),

-- Only the flows of several ports are ranked, because a window function sorts all columns.
several_ports as (
    select
        site,
        flow_id
    from port_flows
    group by site, flow_id
    having count(*) > 1
),

ranked as (
    select
        p.*,
        row_number() over (
            partition by p.site, p.flow_id order by p.wire_bytes desc, p.frames desc, p.port asc
        ) as place,
        (count(*) over (partition by p.site, p.flow_id))::ubigint as ports
    from port_flows as p
    semi join several_ports as o on p.site = o.site and p.flow_id = o.flow_id
),

final as (
    select
        * exclude (place, port),
        port as largest_port
    from ranked
    where place = 1
    union all by name
    select
        p.* exclude (port),  -- noqa: RF02
        1::ubigint as ports,
        p.port as largest_port
    from port_flows as p
    anti join several_ports as o on p.site = o.site and p.flow_id = o.flow_id
)

select * from final
