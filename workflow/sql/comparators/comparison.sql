-- One row: what a tool saw (table seen) beside what there was (table exact), flows paired by all of their key.
with

exact as (
    select * from exact
),

seen as (
    select * from seen
),

paired as (
    select
        exact.packets as exact_packets,
        exact.ip_bytes as exact_bytes,
        seen.packets as seen_packets,
        seen.ip_bytes as seen_bytes,
        seen.records
    from exact
    full outer join seen
        on
            exact.src = seen.src
            and exact.dst = seen.dst
            and exact.ip_proto = seen.ip_proto
            and exact.src_port = seen.src_port
            and exact.dst_port = seen.dst_port
),

final as (
    select
        count(exact_packets) as exact_flows,
        coalesce(sum(exact_packets), 0)::ubigint as exact_packets,
        coalesce(sum(exact_bytes), 0)::ubigint as exact_bytes,
        count(seen_packets) as flows,
        coalesce(sum(records), 0)::ubigint as records,
        coalesce(sum(seen_packets), 0)::ubigint as packets,
        coalesce(sum(seen_bytes), 0)::ubigint as ip_bytes,
        count(*) filter (where exact_packets is not null and seen_packets is not null) as common_flows,
        count(*) filter (where exact_packets = seen_packets) as flows_with_equal_packets,
        count(*) filter (where exact_bytes = seen_bytes) as flows_with_equal_bytes
    from paired
)

select * from final
