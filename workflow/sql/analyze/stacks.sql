-- One row per sample and header stack: its depth, and the headers before the innermost network header. Payload of any
-- kind is not a header and does not count in the depth.
with

innermost as (
    select * from innermost
),

payload_kinds as (
    select list(label) as labels from payload_kinds
),

labeled as (
    select
        innermost.*,
        payload_kinds.labels,
        string_split(innermost.stack, '/') as headers
    from innermost
    cross join payload_kinds
),

split as (
    select
        *,
        list_filter(headers, lambda x: list_contains(labels, x)) as payloads
    from labeled
),

final as (
    select
        sample,
        stack,
        case when stack = '' then 0 else len(headers) - len(payloads) end::ubigint as headers,
        case when prefix = '' then 'none' else prefix[2:] end as encapsulation,
        frames,
        wire_bytes
    from split
    order by sample, stack
)

select * from final
