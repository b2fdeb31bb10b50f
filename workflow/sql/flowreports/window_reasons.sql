-- One row per reason for which a window may be off by more than 10 %, and one for windows without a reason (none):
-- their number, and how many are within 10 % of the exact value (0 where the digest has no packets of the flow).
with

windows as (
    select * from judged_windows
),

counted as (
    select
        coalesce(reason, 'none') as reason,
        count(*)::ubigint as windows,
        count(*) filter (where abs(bytes_measured::hugeint - bytes) * 10 <= bytes)::ubigint as within
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
        within / windows as within_share
    from counted
)

select * from final
