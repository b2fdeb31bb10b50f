-- One row per site and flow, as observed at its largest port, because two mirrored ports may capture the same frame.
with

port_flows as (
    select * from port_flows
),

ranked as (
    select
        *,
        row_number() over (
            partition by site, flow_id order by wire_bytes desc, frames desc, port asc
        ) as place,
        (count(*) over (partition by site, flow_id))::ubigint as ports
    from port_flows
),

final as (
    select
        * exclude (place, port),
        port as largest_port
    from ranked
    where place = 1
)

select * from final
