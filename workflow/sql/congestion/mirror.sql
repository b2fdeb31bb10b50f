-- One row per sample: its mirror, according to its manifest. A frame occupies overhead_bytes more than wire_len at the
-- mirror port, and counter_overhead_bytes more in the counters; `readings` are counter readings, [ns, bytes], in order.
-- The port's queue holds between buffer_low_bytes and buffer_bytes.
with

frames as (
    select * from frames
),

samples as (
    select * from samples
),

captured as (
    select
        s.sample,
        count(f.sample) as frames,
        greatest($frame_bytes, coalesce(max(f.wire_len), 0)) as longest_bytes,
        -- the mean frame length weighted by bytes, over that weighted by frames
        coalesce(sum(f.wire_len::double * f.wire_len) * count(*) / nullif(sum(f.wire_len::double) ** 2, 0), 1)
            as length_ratio
    from samples as s
    left join frames as f on s.sample = f.sample
    group by s.sample
),

files as (
    select *
    from read_json(
        $manifests,
        filename = true,
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

manifest as (
    select
        s.sample,
        f.* exclude (filename)  -- noqa: RF02
    from files as f
    inner join samples as s on f.filename = s.manifest
),

mirror as (
    select
        m.*,
        c.frames,
        c.length_ratio,
        coalesce(m.congestion.capacity_overhead_bytes, 24) as overhead_bytes,
        c.longest_bytes + coalesce(m.congestion.capacity_overhead_bytes, 24) as longest_bytes,
        coalesce(m.congestion.buffer_bytes, $buffer_frames * c.longest_bytes) as buffer_low_bytes,
        coalesce(m.congestion.buffer_bytes, $buffer_most_frames * c.longest_bytes) as buffer_bytes,
        -- frames that reached the receiver but are not in the capture
        coalesce(m.dropped_kernel, 0) + coalesce(m.dropped_interface, 0)
        + greatest(0, coalesce(m.frames_captured, 0)::hugeint - c.frames) as dropped_frames
    from manifest as m
    inner join captured as c on m.sample = c.sample
),

final as (
    select
        sample,
        nullif(congestion.capacity_bps, 0)::double as capacity_bps,
        overhead_bytes,
        coalesce(congestion.counter_overhead_bytes, 4) as counter_overhead_bytes,
        longest_bytes,
        buffer_low_bytes,
        buffer_bytes,
        -- Loss requires this number of bytes back to back: a queue without room for the longest frame is full.
        -- fill_share accounts for switches that store frames in larger cells. The lower limit keeps this number
        -- positive if the queue holds hardly more than the longest frame.
        greatest(
            64,
            least(
                case when congestion.buffer_bytes is null then $fill_share else 1 end * buffer_low_bytes,
                buffer_low_bytes - longest_bytes
            )
        )::double as fill_bytes,
        coalesce(congestion.readings, []) as readings,
        actual.start_ns,
        actual.end_ns,
        port_rate_bps::double as port_rate_bps,
        congestion.buffer_bytes is not null and port_rate_bps > 0 as lines_known,
        -- Maximum load by the mirrored port. A switch may copy frames before their egress queue; then frames of several
        -- senders arrive at the sum of their line rates, including copies of frames that the port drops.
        case when direction = 'rx' then port_rate_bps end::double as line_bps,
        direction = 'rx' as counts_copies,
        -- whether the capture has every frame that reached the receiver, apart from those counted as dropped
        coalesce(filter, '') = '' and coalesce(one_in, 1) = 1 and p4 is null as unfiltered,
        dropped_kernel is not null and dropped_interface is not null as drops_known,
        dropped_frames::double as dropped_frames,
        -- Bytes that reached the receiver over captured bytes, if dropped frames had average length; and the upper
        -- bound, since a full buffer drops long frames more often.
        case when frames > 0 then 1 + dropped_frames / frames::double else 1 end as delivered_ratio,
        case when frames > 0 then 1 + dropped_frames / frames::double * length_ratio else 1 end as delivered_max_ratio
    from mirror
)

select * from final
