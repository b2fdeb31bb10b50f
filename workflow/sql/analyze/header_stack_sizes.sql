-- One row per sample, header stack up to its innermost transport header, and length bin: its frames, counted by TCP
-- content. An ICMP error that quotes a segment has neither TCP flags nor a TCP flow.
with

frames as (
    select * from frames
),

flow_stacks as (
    select * from flow_stacks
),

frame_lengths as (
    select * from frame_lengths
),

bins as (
    select * from length_bins
),

cut_flows as (
    select distinct
        flow_stacks.sample,
        flow_stacks.flow
    from flow_stacks
    inner join flows on flow_stacks.sample = flows.sample and flow_stacks.flow = flows.flow
    where flows.ip_proto = 6 and flow_stacks.cut_frames > 0
),

cut_lengths as (
    select
        frames.sample,
        frames.stack,
        frames.wire_len,
        count(*) as cut_tcp_frames
    from frames
    semi join cut_flows on frames.sample = cut_flows.sample and frames.flow = cut_flows.flow
    where frames.tcp_flags is null or frames.payload_len is null
    group by frames.sample, frames.stack, frames.wire_len
),

counted as (
    select
        frame_lengths.*,
        coalesce(cut_lengths.cut_tcp_frames, 0) as cut_tcp_frames
    from frame_lengths
    left join cut_lengths
        on
            frame_lengths.sample = cut_lengths.sample
            and frame_lengths.stack = cut_lengths.stack
            and frame_lengths.wire_len = cut_lengths.wire_len
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
