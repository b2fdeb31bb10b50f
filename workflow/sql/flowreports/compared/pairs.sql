-- One row per value to compare: its measure, the exact and the measured value, null if one side has none. outside: the
-- program cannot parse the flow, so no measured value is expected. triggers: the packets that trigger a report, all or
-- published. covered: the interval of missing or retransmitted bytes contains the exact number (only loss and
-- retransmitted); width: its length, relative to the sequence numbers that the flow occupies or misses, or to its
-- payload. Flows with a loss_reason have no measured value of these two. iat is the inter-arrival time at the time of a
-- flow's newest report. ambiguous: several packets have the time of the report, and which of them it covers is unknown,
-- so the pair is not judged.
with

flows as (
    select * from compared_flows
),

windows as (
    select
        flow,
        bytes * 8e9 / $length_ns as bps,
        bytes_measured * 8e9 / $length_ns as measured_bps,
        reason
    from judged_windows
),

iats as (
    select * from compared_iats
),

-- Flows whose inter-arrival time at the newest report depends on the order of packets with the report's time.
simultaneous as (
    select flow
    from iats
    group by flow
    having max_by(ambiguous or early, place)
),

rates as (
    select * from compared_rates
),

acknowledgments as (
    select * from compared_acknowledgments
),

-- span_bytes: sequence numbers of the flow's data, captured or missing.
derived as (
    select
        * exclude (uncertain_bytes),
        min(start_ns) over () as capture_ns,
        payload_bytes - retransmitted_bytes + missing_bytes as span_bytes,
        payload_measured_bytes::hugeint - retransmitted_measured_bytes + missing_measured_bytes as span_measured_bytes,
        missing_bytes between missing_measured_bytes and missing_measured_bytes + uncertain_bytes as in_interval,
        retransmitted_bytes
        between retransmitted_measured_bytes
        and retransmitted_measured_bytes + uncertain_bytes as in_retransmitted,
        uncertain_bytes,
        loss_reason is null as followed
    from flows
),

flow_measures as (
    select
        flow,
        outside,
        case when followed then in_interval end as in_interval,
        case when followed then in_retransmitted end as in_retransmitted,
        case when span_measured_bytes > 0 then uncertain_bytes / span_measured_bytes end as interval_width,
        case when payload_measured_bytes > 0 then uncertain_bytes / payload_measured_bytes end as retransmitted_width,
        unnest([  -- noqa: AL03
            { 'measure': 'rtt_syn', 'exact': rtt_syn_ns::double, 'measured': rtt_syn_measured_ns::double },
            { 'measure': 'rtt_ack', 'exact': rtt_ack_ns::double, 'measured': rtt_ack_measured_ns::double },
            { 'measure': 'start', 'exact': start_ns - capture_ns, 'measured': start_measured_ns - capture_ns },
            { 'measure': 'end', 'exact': end_ns - capture_ns, 'measured': end_measured_ns - capture_ns },
            { 'measure': 'duration', 'exact': end_ns - start_ns, 'measured': end_measured_ns - start_measured_ns },
            { 'measure': 'bytes', 'exact': bytes::double, 'measured': bytes_measured::double },
            { 'measure': 'packets', 'exact': packets::double, 'measured': packets_measured::double },
            {
                'measure': 'loss',
                'exact': case when span_bytes > 0 then missing_bytes / span_bytes end,
                'measured':
                case when followed and span_measured_bytes > 0 then missing_measured_bytes / span_measured_bytes end
            },
            {
                'measure': 'retransmitted',
                'exact': case when payload_bytes > 0 then retransmitted_bytes / payload_bytes end,
                'measured':
                case
                    when followed and payload_measured_bytes > 0
                        then retransmitted_measured_bytes / payload_measured_bytes
                end
            },
            {
                'measure': 'iat',
                'exact': case when reports is null then iat_ns else iat_at_report_ns end::double,
                'measured': iat_measured_ns::double
            }
        ], recursive := true)
    from derived
),

report_measures as (
    select
        ambiguous,
        unnest([  -- noqa: AL03
            { 'measure': 'packet_size', 'exact': packet_size, 'measured': packet_size_measured },
            { 'measure': 'throughput_reports', 'exact': bps, 'measured': bps_measured }
        ], recursive := true)
    from rates
    union all
    select
        ambiguous,
        unnest([  -- noqa: AL03
            {
                'measure': 'bytes_in_flight',
                'exact': flight_bytes::double,
                'measured': flight_measured_bytes::double
            },
            {
                'measure': 'acknowledged_bytes',
                'exact': acknowledged_bytes::double,
                'measured': acknowledged_measured_bytes::double
            }
        ], recursive := true)
    from acknowledgments
),

measures as (
    select
        measure,
        outside,
        exact,
        measured,
        case measure when 'loss' then in_interval when 'retransmitted' then in_retransmitted end as covered,
        case measure when 'loss' then interval_width when 'retransmitted' then retransmitted_width end as width,
        measure = 'iat' and flow_measures.flow in (select s.flow from simultaneous as s) as ambiguous
    from flow_measures
    where exact is not null or measured is not null
    union all
    select
        'iat_reports' as measure,
        false as outside,
        iat_ns::double as exact,
        iat_measured_ns::double as measured,
        null as covered,
        null as width,
        ambiguous
    from iats
    union all
    select
        measure,
        false as outside,
        exact,
        measured,
        null as covered,
        null as width,
        ambiguous
    from report_measures
    where exact is not null or measured is not null
    union all
    select
        'throughput' as measure,
        flows.outside,
        windows.bps as exact,
        case when flows.found = 'both' then windows.measured_bps end as measured,
        null as covered,
        null as width,
        false as ambiguous
    from windows
    inner join flows on windows.flow = flows.flow
    where not flows.outside and flows.found <> 'collector'
    union all
    select
        'throughput_known' as measure,
        false as outside,
        bps as exact,
        measured_bps as measured,
        null as covered,
        null as width,
        false as ambiguous
    from windows
    where reason is null
),

final as (
    select
        $of_triggers as triggers,
        *
    from measures
)

select * from final
