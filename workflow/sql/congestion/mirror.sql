-- One row: the mirror of a sample, by its manifest. A frame occupies overhead_bytes beyond wire_len at the mirror
-- port and counter_overhead_bytes in the counters; readings are those of the counters, [ns, octets], in order.
with

manifest as (
    select *
    from read_json(
        $manifest,
        columns = {
            direction: 'varchar',
            filter: 'varchar',
            one_in: 'ubigint',
            actual: 'struct(start_ns bigint, end_ns bigint)',
            frames_captured: 'ubigint',
            dropped_kernel: 'ubigint',
            dropped_interface: 'ubigint',
            port_rate_bps: 'ubigint',
            p4: 'struct(program varchar)',
            congestion:
            'struct(capacity_bps ubigint, capacity_overhead_bytes bigint, counter_overhead_bytes bigint,
                buffer_bytes bigint, readings bigint[][])'
        }
    )
),

final as (
    select
        nullif(congestion.capacity_bps, 0)::double as capacity_bps,
        coalesce(congestion.capacity_overhead_bytes, 24) as overhead_bytes,
        coalesce(congestion.counter_overhead_bytes, 4) as counter_overhead_bytes,
        -- a run this long fills the queue: loss needs one
        $fill_share * coalesce(congestion.buffer_bytes, $buffer_frames * $frame_bytes) as fill_bytes,
        coalesce(congestion.buffer_bytes, $buffer_frames * $frame_bytes) as buffer_bytes,
        coalesce(congestion.readings, []) as readings,
        actual.start_ns,
        actual.end_ns,
        -- the most that the mirrored port can offer
        port_rate_bps * case when direction = 'both' then 2 else 1 end::double as line_bps,
        -- whether the capture has every frame that reached the receiver, apart from those counted as dropped
        coalesce(filter, '') = '' and coalesce(one_in, 1) = 1 and p4 is null as whole,
        case
            when frames_captured > 0
                then 1 + (coalesce(dropped_kernel, 0) + coalesce(dropped_interface, 0)) / frames_captured
            else 1
        end as delivered_ratio
    from manifest
)

select * from final
