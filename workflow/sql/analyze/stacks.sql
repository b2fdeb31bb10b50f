-- One row per header stack: its depth, and what stands before the innermost network header.
with

frames as (
    select * from frames
),

stacks as (
    select
        stack,
        '/' || stack || '/' as path,
        count(*)::ubigint as frames,
        sum(wire_len)::ubigint as wire_bytes
    from frames
    group by stack
),

split as (
    select
        stack,
        frames,
        wire_bytes,
        case
            when regexp_matches(path, '/IPv[46]/') then regexp_extract(path, '^(.*)/IPv[46]/', 1)
            else
                regexp_extract(path, '^((?:/(?:Ethernet|LLC|VLAN|MPLS|PseudoWire|PPPoE|PPP|SLL|Null|Raw|MACsec))*)/', 1)
        end as prefix
    from stacks
),

final as (
    select
        stack,
        case when stack = '' then 0 else len(string_split(stack, '/')) end::ubigint as headers,
        case when prefix = '' then 'none' else prefix[2:] end as encapsulation,
        frames,
        wire_bytes
    from split
    order by stack
)

select * from final
