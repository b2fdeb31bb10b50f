-- One row per frame: the view `frames`. A filter on sample, site or port opens only the files that it needs, because
-- the join on the file's name becomes a list of names before any file is read. The columns are listed because an acap
-- of several captures has the additional column `file`, which DuckDB would expect in every other acap. CTEs do not have
-- names of tables, because DuckDB 1.0.0 treats this as recursion in a view.
with

digested as (
    select * from samples
    where acap is not null
),

acaps as (
    select * from read_parquet('acap/*.parquet', filename = true)
),

keys as (
    select * from flows
),

final as (
    select
        s.sample,
        s.site,
        s.port,
        s.excluded,
        a.frame,
        a.ts_ns,
        a.wire_len,
        a.cap_len,
        a.inner_wire_len,
        a.protocols,
        a.stack,
        a.flow,
        a.tcp_flags,
        a.tcp_seq,
        a.tcp_ack,
        a.payload_len,
        a.ip_len,
        a.ip_id,
        a.l4_by,
        a.app_by,
        a.issue,
        f.flow_id,
        f.vlan,
        f.mpls,
        f.tunnels,
        f.ip_version,
        f.src,
        f.dst,
        f.ip_proto,
        f.src_port,
        f.dst_port,
        f.app
    from acaps as a
    inner join digested as s on a.filename = s.acap
    left join keys as f on s.sample = f.sample and a.flow = f.flow
)

select * from final
