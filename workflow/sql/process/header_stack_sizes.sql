-- One row per site, header stack and length bin with frames: these frames, counted by TCP content.
with

header_stack_sizes as (
    select * from header_stack_sizes
),

scopes as (
    select * from scopes
),

totals as (
    select * from totals
),

counted as (
    select
        scopes.site,
        sizes.stack,
        sizes.bin,
        sizes.bin_lo,
        sizes.bin_hi,
        sum(sizes.frames)::ubigint as frames,
        sum(sizes.tcp_frames)::ubigint as tcp_frames,
        sum(sizes.no_payload_frames)::ubigint as no_payload_frames,
        sum(sizes.ack_frames)::ubigint as ack_frames,
        sum(sizes.cut_tcp_frames)::ubigint as cut_tcp_frames
    from header_stack_sizes as sizes
    inner join scopes on sizes.sample = scopes.sample
    group by scopes.site, sizes.stack, sizes.bin, sizes.bin_lo, sizes.bin_hi
),

final as (
    select
        c.*,
        t.frames as total_frames,
        t.samples
    from counted as c
    inner join totals as t on c.site = t.site
)

select * from final
