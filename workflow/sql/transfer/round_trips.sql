-- One row per acknowledgment with a round-trip time: from the last segment that it acknowledges to the acknowledgment.
-- Acknowledgments that cover a retransmitted segment have none (Karn's algorithm, RFC 6298, section 3); these include
-- those at the end of a recovery, which cover segments that arrived long before.
with

acks as (
    select * from acknowledgments
),

sent as (
    select * from segments
    where not repeated
),

resent as (
    select * from segments
    where repeated
),

matched as (
    select
        acks.stream,
        acks.frame,
        acks.ts_ns,
        acks.ack_at,
        acks.ack_before,
        sent.data_end,
        sent.ts_ns as sent_ns
    from acks
    asof inner join sent
        on acks.stream = sent.stream and acks.ack_at >= sent.data_end
),

checked as (
    select
        matched.*,
        resent.data_end as resent_end
    from matched
    asof left join resent
        on matched.stream = resent.stream and matched.ack_at >= resent.data_end
),

final as (
    select
        stream,
        ts_ns,
        ts_ns - sent_ns as rtt_ns
    from checked
    where data_end > ack_before and ts_ns >= sent_ns and coalesce(resent_end <= ack_before, true)
)

select * from final
