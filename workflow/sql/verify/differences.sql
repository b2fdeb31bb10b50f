-- One row per frame and layer on which the two digests disagree, with both values as text.
with

pairs as (
    select * from pairs
),

compared as (
    select
        frame,
        native,
        'frames' as layer,
        true as compared,
        if(protocols is null, null, 'there') as ours,
        if(tshark_protocols is null, null, 'there') as theirs
    from pairs

    union all
    select
        frame,
        native,
        'time' as layer,
        both_have as compared,
        ts_ns::varchar as ours,
        tshark_ts_ns::varchar as theirs
    from pairs

    union all
    select
        frame,
        native,
        'lengths' as layer,
        both_have as compared,
        row(wire_len, cap_len)::varchar as ours,
        row(tshark_wire_len, tshark_cap_len)::varchar as theirs
    from pairs

    union all
    select
        frame,
        native,
        'link' as layer,
        both_have as compared,
        link as ours,
        tshark_link as theirs
    from pairs

    union all
    select
        frame,
        native,
        'network' as layer,
        both_have as compared,
        network as ours,
        tshark_network as theirs
    from pairs

    union all
    select
        frame,
        native,
        'transport' as layer,
        both_have as compared,
        transport as ours,
        tshark_transport as theirs
    from pairs

    union all
    select
        frame,
        native,
        'addresses' as layer,
        both_have as compared,
        row(ip_version, src, dst, ip_proto)::varchar as ours,
        row(tshark_ip_version, tshark_src, tshark_dst, tshark_ip_proto)::varchar as theirs
    from pairs

    union all
    select
        frame,
        native,
        'ports' as layer,
        both_have as compared,
        row(src_port, dst_port)::varchar as ours,
        row(tshark_src_port, tshark_dst_port)::varchar as theirs
    from pairs

    union all
    select
        frame,
        native,
        'vlan' as layer,
        both_have and vlan is not null as compared,
        vlan::varchar as ours,
        tshark_vlan::varchar as theirs
    from pairs

    union all
    select
        frame,
        native,
        'mpls' as layer,
        both_have and mpls is not null as compared,
        mpls::varchar as ours,
        tshark_mpls::varchar as theirs
    from pairs

    union all
    select
        frame,
        native,
        'tunnels' as layer,
        both_have and tunnels is not null as compared,
        tunnels::varchar as ours,
        tshark_tunnels::varchar as theirs
    from pairs

    union all
    select
        frame,
        native,
        'tcp' as layer,
        both_have as compared,
        row(tcp_flags, tcp_seq, tcp_ack)::varchar as ours,
        row(tshark_tcp_flags, tshark_tcp_seq, tshark_tcp_ack)::varchar as theirs
    from pairs

    union all
    select
        frame,
        native,
        'above layer 4' as layer,
        both_have and decided as compared,
        above as ours,
        tshark_above as theirs
    from pairs

    union all
    select
        frame,
        native,
        'protocols' as layer,
        both_have and decided as compared,
        protocols as ours,
        tshark_protocols as theirs
    from pairs
),

errata as (
    select * from errata
),

final as (
    select
        c.frame,
        c.native,
        c.layer,
        c.ours,
        c.theirs,
        e.erratum
    from compared as c
    -- An erratum explains the time, or headers after the MPLS stack, but no other difference of its frame.
    left join errata as e
        on
            c.frame = e.frame
            and (
                (e.excuses = 'time' and c.layer = 'time')
                or (
                    e.excuses = 'after_mpls'
                    and (
                        c.layer in (
                            'link', 'network', 'transport', 'addresses', 'ports', 'tunnels', 'tcp', 'above layer 4',
                            'protocols'
                        )
                        or (c.layer = 'vlan' and e.outer_vlans_agree)
                        or (c.layer = 'mpls' and e.outer_labels_agree)
                    )
                )
            )
    where c.compared and c.ours is distinct from c.theirs
)

select * from final
