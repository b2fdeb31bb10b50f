-- One row per TCP flow whose packets occupy sequence numbers (data, SYN, FIN). missing_bytes: those between the lowest
-- and the highest of a connection that no packet of the capture occupies. distinct_bytes: payload without what was sent
-- again; retransmitted_bytes: the rest of the payload.
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

final as (
    select
        key,
        coalesce(sum(hole), 0)::ubigint as missing_bytes,
        sum(fresh)::ubigint as distinct_bytes,
        (sum(payload_len) - sum(fresh))::ubigint as retransmitted_bytes
    from ordered
    group by key
)

select * from final
