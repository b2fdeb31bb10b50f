-- One row per TCP packet that changes the known state of a flow's data: a segment of the flow, or an acknowledgment by
-- its reverse flow after the flow's first segment. acknowledged_bytes: sum of the increases of the highest
-- acknowledgment number, from the SYN if it was captured, else from the first acknowledgment; numbers before the SYN
-- are ignored. flight_bytes: the highest sequence number (of data, SYN or FIN; before the first of these, that of the
-- first segment) minus the highest acknowledgment number; null while one of them is unknown, or if the acknowledgment
-- exceeds the captured data.
with

segments as (
    select * from segments
),

keys as (
    select distinct
        key,
        way
    from keys
),

packets as (
    select * from packets
    where tcp_flags is not null and tcp_ack is not null and tcp_flags & 16 = 16
),

events as (
    select
        key,
        frame,
        ts_ns,
        connection,
        first_seq,
        opened,
        case when end_at > start_at then end_at end as end_at,
        case when row_number() over (partition by key, connection order by frame) = 1 then end_at end as first_at,
        null::bigint as ack
    from segments
    union all
    select
        keys.key,
        packets.frame,
        packets.ts_ns,
        null as connection,
        null as first_seq,
        null as opened,
        null as end_at,
        null as first_at,
        packets.tcp_ack::bigint as ack
    from packets
    inner join keys on packets.way_back = keys.way
),

filled as (
    select
        key,
        frame,
        ts_ns,
        end_at,
        first_at,
        ack,
        last_value(connection ignore nulls) over earlier as connection,
        last_value(first_seq ignore nulls) over earlier as first_seq,
        last_value(opened ignore nulls) over earlier as opened
    from events
    window earlier as (partition by key order by frame)
    qualify last_value(connection ignore nulls) over earlier is not null
),

stepped as (
    select
        *,
        case
            when ack is not null
                then (
                    ack - coalesce(
                        last_value(ack ignore nulls) over (
                            partition by key, connection
                            order by frame
                            rows between unbounded preceding and 1 preceding
                        ),
                        case when opened = 1 then first_seq::bigint + 1 end,
                        ack
                    ) + 6442450944
                ) % 4294967296 - 2147483648
        end as step
    from filled
),

placed as (
    select
        *,
        sum(step) over (partition by key, connection order by frame)::bigint as ack_at,
        coalesce(
            max(end_at) over (partition by key, connection order by frame),
            max(first_at) over (partition by key, connection order by frame)
        ) as highest
    from stepped
),

topped as (
    select
        key,
        frame,
        ts_ns,
        connection,
        (first_seq::bigint + highest) % 4294967296 as seq_end,
        case
            when max(ack_at) over connections is not null
                then greatest(max(ack_at) over connections, case when opened = 1 then 0 end)
        end as acked,
        first_seq,
        opened,
        max_by(ack, ack_at) over connections as highest_ack
    from placed
    window connections as (partition by key, connection order by frame)
),

advanced as (
    select
        *,
        acked - coalesce(lag(acked) over (partition by key, connection order by frame), 0) as advance,
        (
            seq_end
            - case when opened = 1 then (first_seq::bigint + 1 + acked) % 4294967296 else highest_ack end
            + 6442450944
        ) % 4294967296 - 2147483648 as flight
    from topped
),

final as (
    select
        key,
        frame,
        ts_ns,
        case when flight >= 0 then flight end as flight_bytes,
        sum(advance) over (partition by key order by frame)::bigint as acknowledged_bytes
    from advanced
)

select * from final
