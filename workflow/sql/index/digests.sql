-- One row per acap in use: properties of the whole sample, from the Parquet metadata `acapella` that Python has read.
with

files as (
    select * from files
),

final as (
    select
        sample,
        acap,
        digest ->> 'version' as version,
        digest ->> 'engine' as engine,
        digest ->> 'site' as digest_site,
        digest ->> 'port' as digest_port,
        (digest ->> 'frames')::ubigint as frames,
        (digest ->> 'flows')::ubigint as flows,
        (digest ->> 'first_ns')::bigint as first_ns,
        (digest ->> 'last_ns')::bigint as last_ns,
        (digest ->> 'wire_bytes')::ubigint as wire_bytes,
        (digest ->> 'captured_bytes')::ubigint as captured_bytes,
        digest -> 'link_types' as link_types,
        (digest ->> 'snaplen')::bigint as snaplen,
        (digest ->> 'clock_resolution_ns')::bigint as clock_resolution_ns,
        (digest ->> 'time_reversals')::ubigint as time_reversals,
        (digest ->> 'implausible_times')::ubigint as implausible_times,
        digest ->> 'file_issue' as file_issue,
        (digest ->> 'file_unread_bytes')::ubigint as file_unread_bytes,
        digest -> 'issues' as issues,
        digest -> 'l4_by' as l4_by,
        digest -> 'app_by' as app_by,
        (digest ->> 'peers_ambiguous')::ubigint as peers_ambiguous,
        digest ->> '$.tshark.version' as tshark_version,
        digest -> 'tshark' -> 'preferences' as tshark_preferences,
        digest -> 'vendors' as vendors,
        digest -> 'parameters' as parameters
    from files
)

select * from final
