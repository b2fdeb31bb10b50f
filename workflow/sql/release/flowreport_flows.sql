-- One row per row of flowreport_flows, with pseudonyms.
with

final as (
    select * exclude (true_flow) from renamed
)

select * from final
