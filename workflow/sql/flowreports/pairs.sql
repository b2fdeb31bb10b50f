-- One row per value that is there to be compared, exactly and as measured, under its measure's name; null where a side
-- has none. outside: the program has no headers for the flow, so that nothing is to be expected of it.
with

flows as (
    select * from compared_flows
),

windows as (
    select
        flow,
        bytes * 8e9 / $length_ns as bps,
        bytes_measured * 8e9 / $length_ns as measured_bps
    from compared_windows
),

iats as (
    select * from compared_iats
),

rates as (
    select * from compared_rates
),

of_flows as (
    select
        outside,
        unnest(['rtt_syn', 'rtt_ack', 'bytes', 'packets', 'iat']) as measure,
        unnest([rtt_syn_ns::double, rtt_ack_ns::double, bytes::double, packets::double, iat_ns::double]) as exact,
        unnest([
            rtt_syn_measured_ns::double,
            rtt_ack_measured_ns::double,
            bytes_measured::double,
            packets_measured::double,
            iat_measured_ns::double
        ]) as measured
    from flows
),

final as (
    select
        measure,
        outside,
        exact,
        measured
    from of_flows
    where exact is not null or measured is not null
    union all
    select
        'iat_reports' as measure,
        false as outside,
        iat_ns::double as exact,
        iat_measured_ns::double as measured
    from iats
    union all
    select
        'throughput_reports' as measure,
        false as outside,
        bps as exact,
        bps_measured as measured
    from rates
    union all
    select
        'throughput' as measure,
        flows.outside,
        windows.bps as exact,
        windows.measured_bps as measured
    from windows
    inner join flows on windows.flow = flows.flow
    where not flows.outside and flows.found = 'both'
)

select * from final
