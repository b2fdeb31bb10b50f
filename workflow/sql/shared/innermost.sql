-- One row per sample and header stack: the headers before its innermost network header, and whether a link-layer or
-- network header other than IP follows its last IP header, such as ARP in VXLAN. Headers quoted by an ICMP error are
-- not headers of the frame.
with

flow_stacks as (
    select * from flow_stacks
),

stacks as (
    select
        sample,
        stack,
        regexp_replace('/' || stack || '/', '/(ICMP|ICMPv6)/.*', '/') as unquoted,
        sum(frames)::ubigint as frames,
        sum(wire_bytes)::ubigint as wire_bytes
    from flow_stacks
    group by sample, stack
),

classified as (
    select
        *,
        regexp_extract(
            unquoted,
            '^.*/(IPv4|IPv6|Ethernet|LLC|VLAN|PBB|MPLS|PseudoWire|PPPoED|PPPoE|PPP|SLL|Null|Raw|MACsec|ARP|OSI|ISIS)/',
            1
        ) as innermost
    from stacks
),

final as (
    select
        sample,
        stack,
        frames,
        wire_bytes,
        regexp_matches(unquoted, '/IPv[46]/') and innermost not in ('IPv4', 'IPv6') as not_ip,
        -- the version of the last IP header, if the stack has headers of both versions
        case
            when contains(unquoted, '/IPv4/') and contains(unquoted, '/IPv6/')
                then regexp_extract(unquoted, '^.*/IPv([46])/', 1)
        end as last_version,
        case
            when not_ip and innermost in ('ARP', 'OSI', 'ISIS')
                then regexp_extract(unquoted, '^(.*)/(ARP|OSI|ISIS)/', 1)
            when not_ip then regexp_extract(unquoted, '^(.*/' || innermost || ')/', 1)
            when regexp_matches(unquoted, '/IPv[46]/') then regexp_extract(unquoted, '^(.*)/IPv[46]/', 1)
            else
                regexp_extract(
                    unquoted, '^((?:/(?:Ethernet|LLC|VLAN|MPLS|PseudoWire|PPPoE|PPP|SLL|Null|Raw|MACsec))*)/', 1
                )
        end as prefix
    from classified
)

select * from final
