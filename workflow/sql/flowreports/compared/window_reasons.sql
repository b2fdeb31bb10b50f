-- One row per reason why a window may be wrong by more than 10 %, and one for windows without a reason (none): the
-- number of windows, how many are within 10 % of the exact value (0 if the digest has no packets of the flow), how many
-- have a bound, and for how many of these the exact value is within their bounds.
with

windows as (
    select * from judged_windows
),

counted as (
    select
        coalesce(reason, 'none') as reason,
        count(*)::ubigint as windows,
        count(*) filter (where abs(bytes_measured::hugeint - bytes) * 10 <= bytes)::ubigint as within,
        count(*) filter (where bytes_high is not null)::ubigint as bounded,
        count(*) filter (where bytes <= bytes_high and bytes >= coalesce(bytes_low, 0))::ubigint as held
    from windows
    group by coalesce(reason, 'none')
),

final as (
    select
        $of_sample as sample,  -- noqa: RF02
        reason,
        windows,
        windows / sum(windows) over () as share,
        within,
        within / windows as within_share,
        bounded,
        held
    from counted
)

select * from final
