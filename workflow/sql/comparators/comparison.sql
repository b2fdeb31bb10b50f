-- One row: flows of a tool (table measured) compared with the exact ones (table exact), matched by all key columns.
with

exact as (
    select * from exact
),

measured as (
    select * from measured
),

paired as (
    select
        exact.packets as exact_packets,
        exact.ip_bytes as exact_bytes,
        measured.packets as measured_packets,
        measured.ip_bytes as measured_bytes,
        measured.records
    from exact
    full outer join measured
        on
            exact.src = measured.src
            and exact.dst = measured.dst
            and exact.ip_proto = measured.ip_proto
            and exact.src_port = measured.src_port
            and exact.dst_port = measured.dst_port
),

final as (
    select
        count(exact_packets) as exact_flows,
        coalesce(sum(exact_packets), 0)::ubigint as exact_packets,
        coalesce(sum(exact_bytes), 0)::ubigint as exact_bytes,
        count(measured_packets) as flows,
        coalesce(sum(records), 0)::ubigint as records,
        coalesce(sum(measured_packets), 0)::ubigint as packets,
        coalesce(sum(measured_bytes), 0)::ubigint as ip_bytes,
        count(*) filter (where exact_packets is not null and measured_packets is not null) as common_flows,
        count(*) filter (where exact_packets = measured_packets) as flows_with_equal_packets,
        count(*) filter (where exact_bytes = measured_bytes) as flows_with_equal_bytes
    from paired
)

select * from final
