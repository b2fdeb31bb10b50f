-- One row per manifest in $files, with the columns of schemas/manifest.schema.json.
with

manifests as (
    select *
    from read_json(
        $files,
        filename = true,
        columns = {
            acapella_manifest: 'bigint',
            campaign: 'varchar',
            run: 'bigint',
            sample: 'varchar',
            testbed: 'varchar',
            site: 'varchar',
            instance: 'varchar',
            port: 'varchar',
            direction: 'varchar',
            method: 'varchar',
            file: 'varchar',
            sha256: 'varchar',
            bytes: 'ubigint',
            snaplen: 'bigint',
            filter: 'varchar',
            one_in: 'ubigint',
            sampled_out: 'ubigint',
            requested: 'struct(start_ns bigint, end_ns bigint)',
            actual: 'struct(start_ns bigint, end_ns bigint)',
            frames_received: 'ubigint',
            frames_captured: 'ubigint',
            dropped_kernel: 'ubigint',
            dropped_interface: 'ubigint',
            mirror:
            'struct(offered_frames ubigint, delivered_frames ubigint, offered_bytes ubigint, delivered_bytes ubigint)',
            clock_resolution_ns: 'bigint',
            port_rate_bps: 'ubigint',
            p4: 'struct(program varchar, control_sha256 varchar, not_sent map(varchar, ubigint))',
            environment: 'varchar',
            trial: 'bigint',
            replayed_frames: 'ubigint',
            restrictions: 'struct(reason varchar, detail varchar)[]',
            notes: 'varchar[]'
        }
    )
),

final as (
    select
        parse_filename(filename, true) as sample,
        sample as declared_sample,
        site,
        port,
        campaign,
        run,
        testbed,
        instance,
        direction,
        method,
        file,
        sha256,
        bytes,
        snaplen,
        filter,
        one_in,
        sampled_out,
        requested.start_ns as requested_start_ns,
        requested.end_ns as requested_end_ns,
        actual.start_ns as manifest_start_ns,
        actual.end_ns as manifest_end_ns,
        frames_received,
        frames_captured,
        dropped_kernel,
        dropped_interface,
        mirror.offered_frames as mirror_offered,
        mirror.delivered_frames as mirror_delivered,
        mirror.offered_bytes as mirror_offered_bytes,
        mirror.delivered_bytes as mirror_delivered_bytes,
        clock_resolution_ns,
        port_rate_bps,
        p4.program as p4_program,
        p4.control_sha256 is not null as p4_controlled,
        case when p4.not_sent is not null then coalesce(list_sum(map_values(p4.not_sent)), 0) end as p4_not_sent,
        environment,
        trial,
        replayed_frames,
        restrictions,
        notes
    from manifests
)

select * from final
