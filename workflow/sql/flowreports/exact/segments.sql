-- One row per TCP packet without RST (whose sequence number may be meaningless), with a complete header and a length:
-- the sequence numbers that it occupies. A SYN whose number differs from that of the previous SYN begins a new
-- connection of the flow (reused ports). start_at and end_at are relative to the connection's first packet; numbers are
-- modulo 2^32, and a step of less than half of that is forward (RFC 9293, section 3.4). SYN and FIN occupy one number
-- each.
with

packets as (
    select * from packets
    where tcp_flags is not null and payload_len is not null and tcp_flags & 4 = 0
),

marked as (
    select
        key,
        way,
        frame,
        ts_ns,
        tcp_seq,
        payload_len,
        (tcp_flags & 2) // 2 as syn,
        tcp_flags & 1 as fin,
        last_value(case when tcp_flags & 2 = 2 then tcp_seq end ignore nulls) over (
            partition by key order by frame rows between unbounded preceding and 1 preceding
        ) as syn_before
    from packets
),

numbered as (
    select
        *,
        sum((syn = 1 and syn_before is distinct from tcp_seq)::integer) over (
            partition by key order by frame
        ) as connection
    from marked
),

stepped as (
    select
        *,
        first_value(tcp_seq) over connections as first_seq,
        first_value(syn) over connections as opened,
        coalesce((tcp_seq::bigint - lag(tcp_seq) over connections + 6442450944) % 4294967296 - 2147483648, 0) as step
    from numbered
    window connections as (partition by key, connection order by frame)
),

placed as (
    select
        *,
        sum(step) over (partition by key, connection order by frame)::bigint as start_at
    from stepped
),

final as (
    select
        key,
        way,
        connection,
        frame,
        ts_ns,
        first_seq,
        opened,
        start_at,
        start_at + syn as data_at,
        start_at + syn + payload_len as data_end,
        start_at + syn + payload_len + fin as end_at,
        payload_len
    from placed
)

select * from final
