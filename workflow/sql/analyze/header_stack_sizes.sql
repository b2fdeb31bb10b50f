-- One row per sample, header stack up to its innermost transport header, and length bin: the content of its frames. An
-- ICMP error that quotes a segment has neither TCP flags nor a TCP flow.
with

frames as (
    select * from frames
),

tcp_flows as (
    select
        sample,
        flow
    from flows
    where ip_proto = 6
),

bins as (
    select * from length_bins
),

counted as (
    select
        frames.sample,
        frames.stack,
        frames.wire_len,
        count(*) as frames,
        count(*) filter (where frames.tcp_flags is not null and frames.payload_len is not null) as tcp_frames,
        count(*) filter (where frames.tcp_flags is not null and frames.payload_len = 0) as no_payload_frames,
        count(*) filter (where frames.tcp_flags = 16 and frames.payload_len = 0) as ack_frames,
        count(*) filter (
            where tcp_flows.flow is not null and (frames.tcp_flags is null or frames.payload_len is null)
        ) as cut_tcp_frames
    from frames
    left join tcp_flows on frames.sample = tcp_flows.sample and frames.flow = tcp_flows.flow
    group by frames.sample, frames.stack, frames.wire_len
),

transported as (
    select
        * exclude (stack),
        regexp_extract(
            '/' || stack || '/', '^/(.*/(?:TCP|UDP|UDPLite|SCTP|DCCP|ICMP|ICMPv6|IGMP)|.*)/', 1
        ) as stack
    from counted
),

final as (
    select
        transported.sample,
        transported.stack,
        bins.bin,
        bins.bin_lo::uinteger as bin_lo,
        bins.bin_hi::uinteger as bin_hi,
        sum(transported.frames)::ubigint as frames,
        sum(transported.tcp_frames)::ubigint as tcp_frames,
        sum(transported.no_payload_frames)::ubigint as no_payload_frames,
        sum(transported.ack_frames)::ubigint as ack_frames,
        sum(transported.cut_tcp_frames)::ubigint as cut_tcp_frames
    from transported
    inner join bins
        on
            transported.wire_len >= bins.bin_lo
            and (bins.bin_hi is null or transported.wire_len <= bins.bin_hi)
    group by transported.sample, transported.stack, bins.bin, bins.bin_lo, bins.bin_hi
    order by transported.sample, transported.stack, bins.bin_lo
)

select * from final
