-- One row per port and bin of its readings: the mean rates between the last readings of this bin and of the bin before.
-- They are null in the port's first bin, without a reading in the bin before (gap), and if a counter decreased (reset).
with

readings as (
    select
        site,
        port,
        time_s // $bin_s as bin,
        max(time_s) as time_s,
        arg_max(in_bytes, time_s) as in_bytes,
        arg_max(out_bytes, time_s) as out_bytes,
        max(rate_bps) as rate_bps
    from raw_counters
    where not contains(port, '.')
    group by site, port, time_s // $bin_s
),

steps as (
    select
        *,
        lag(bin) over ports as earlier_bin,
        time_s - lag(time_s) over ports as seconds,
        in_bytes - lag(in_bytes) over ports as in_step,
        out_bytes - lag(out_bytes) over ports as out_step
    from readings
    window ports as (partition by site, port order by bin)
),

judged as (
    select
        *,
        earlier_bin is not null as has_earlier,
        coalesce(bin = earlier_bin + 1, false) as adjacent,
        coalesce(in_step < 0 or out_step < 0, false) as decreased
    from steps
),

final as (
    select
        judged.site,
        judged.port,
        judged.bin,
        coalesce(judged.rate_bps, rates.rate_bps) as rate_bps,
        judged.has_earlier and not judged.adjacent as gap,
        judged.adjacent and judged.decreased as reset,
        if(judged.adjacent and not judged.decreased, judged.in_step / judged.seconds, null) as in_rate,
        if(judged.adjacent and not judged.decreased, judged.out_step / judged.seconds, null) as out_rate
    from judged
    left join raw_rates as rates on starts_with(judged.port, rates.prefix)
)

select * from final
