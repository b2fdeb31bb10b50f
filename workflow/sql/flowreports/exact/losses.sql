-- One row per TCP flow whose packets occupy sequence numbers (data, SYN, FIN). missing_bytes: numbers between the
-- lowest and the highest of a connection that no captured packet occupies. distinct_bytes: payload without
-- retransmissions; retransmitted_bytes: the rest of the payload. Payload at the sequence number of an earlier FIN
-- counts as retransmitted.
with

segments as (
    select * from segments
    where end_at > start_at
),

ordered as (
    select
        key,
        payload_len,
        greatest(
            0,
            start_at - max(end_at) over (
                partition by key, connection order by start_at, frame rows between unbounded preceding and 1 preceding
            )
        ) as hole,
        greatest(
            0,
            data_end - greatest(
                data_at,
                coalesce(
                    max(case when payload_len > 0 then data_end end) over (
                        partition by key, connection
                        order by data_at, frame
                        rows between unbounded preceding and 1 preceding
                    ),
                    data_at
                )
            )
        ) as fresh
    from segments
),

fins as (
    select
        key,
        connection,
        end_at - 1 as fin_at,
        min(frame) as frame
    from segments
    where end_at > data_end
    group by key, connection, end_at - 1
),

-- Sequence numbers of a FIN that payload occupies later.
past_fin as (
    select f.key
    from fins as f
    inner join segments as s
        on
            f.key = s.key
            and f.connection = s.connection
            and f.fin_at >= s.data_at
            and f.fin_at < s.data_end
    group by f.key, f.connection, f.fin_at, f.frame
    having min(s.frame) > f.frame
),

late_payload as (
    select
        key,
        count(*) as bytes
    from past_fin
    group by key
),

summed as (
    select
        key,
        coalesce(sum(hole), 0)::ubigint as missing_bytes,
        sum(fresh)::bigint as fresh_bytes,
        sum(payload_len)::bigint as payload_bytes
    from ordered
    group by key
),

final as (
    select
        s.key,
        s.missing_bytes,
        (s.fresh_bytes - coalesce(o.bytes, 0))::ubigint as distinct_bytes,
        (s.payload_bytes - s.fresh_bytes + coalesce(o.bytes, 0))::ubigint as retransmitted_bytes
    from summed as s
    left join late_payload as o on s.key = o.key
)

select * from final
