-- One row per sample and half of a window with frames. Time is divided into halves of a window, which is the time of
-- $window_frames frames of $frame_bytes at the mirror port's rate, or longer, so that one of the capture's longest
-- frames is at most 1 - $busy_share of it. A window is two successive halves, and busy if its frames, with their share
-- of those that the receiver dropped, occupy at least $busy_share of it. Empty if the mirror's capacity is unknown.
with

arrivals as (
    select * from arrivals
),

mirror as (
    select
        *,
        greatest(1, round(
            greatest(
                $window_frames * ($frame_bytes + overhead_bytes), longest_bytes / greatest(1 - $busy_share, 0.01)
            ) * 4e9 / capacity_bps
        ))::bigint as half_ns
    from mirror
    where capacity_bps > 0
),

halves as (
    select
        a.sample,
        a.at_ns // m.half_ns as half,
        sum(a.port_bytes) * any_value(m.delivered_ratio) as half_bytes
    from arrivals as a
    inner join mirror as m on a.sample = m.sample
    group by a.sample, half
),

windows as (
    select
        h.sample,
        h.half,
        h.half_bytes,
        m.half_ns,
        m.capacity_bps,
        h.half_bytes
        + case when lag(h.half) over in_order = h.half - 1 then lag(h.half_bytes) over in_order else 0 end
            as window_bytes
    from halves as h
    inner join mirror as m on h.sample = m.sample
    window in_order as (partition by h.sample order by h.half)
),

final as (
    select
        *,
        window_bytes >= $busy_share * capacity_bps * half_ns / 4e9 as busy
    from windows
)

select * from final
