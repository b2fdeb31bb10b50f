-- One row per week from the first to the last sample: the sum over ports and bins of the rates received and sent. Weeks
-- begin on Monday 00:00 UTC; $week_offset_s is the time from a Monday to the weekday on which the epoch began.
with

samples as (
    select
        bin,
        (bin * $bin_s + $week_offset_s) // 604800 as week,
        site,
        port,
        in_rate + out_rate as rate
    from port_samples
    where in_rate is not null
),

bins as (
    select
        week,
        bin,
        count(*) as samples,
        sum(rate) as rate
    from samples
    group by week, bin
),

weeks as (
    select
        week,
        sum(samples) as samples,
        count(*) as bins,
        sum(rate) as rate_sum,
        max(rate) as rate_max
    from bins
    group by week
),

ports as (
    select
        week,
        count(distinct struct_pack(site := site, port := port)) as ports
    from samples
    group by week
),

all_weeks as (
    select unnest(range(min(week), max(week) + 1)) as week from weeks
),

final as (
    select
        strftime(make_timestamp((all_weeks.week * 604800 - $week_offset_s) * 1000000), '%Y-%m-%d') as week,
        coalesce(ports.ports, 0) as ports,
        coalesce(weeks.samples, 0)::bigint as samples,
        coalesce(weeks.bins, 0) as bins,
        coalesce(weeks.bins, 0) * $bin_s / 604800 as covered_share,
        weeks.rate_sum as rate_sum_bytes_per_s,
        8 * weeks.rate_sum / weeks.bins as mean_bps,
        8 * weeks.rate_max as max_bps
    from all_weeks
    left join weeks on all_weeks.week = weeks.week
    left join ports on all_weeks.week = ports.week
)

select * from final
