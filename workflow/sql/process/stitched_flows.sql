-- One row per site and flow: stitched across the samples of its largest port.
with

site_flows as (
    select * from site_flows
),

final as (
    select * from site_flows
)

select * from final
