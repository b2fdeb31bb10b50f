-- One row per sample that does not contain all traffic of its port: the reasons, from its manifest or the config.
with

manifests as (
    select * from manifests
),

named_trials as (
    select * from named_trials
),

declared as (
    select
        sample,
        unnest(restrictions) as item
    from manifests
),

reasons as (
    select
        sample,
        'trial' as reason,
        null as detail
    from manifests
    where environment is not null or trial is not null or replayed_frames is not null
    union
    select
        sample,
        'trial' as reason,
        null as detail
    from named_trials
    union
    select
        sample,
        'filter' as reason,
        regexp_replace(trim(filter), '\s+', ' ', 'g') as detail
    from manifests
    where trim(filter) <> ''
    union
    select
        sample,
        'p4' as reason,
        p4_program as detail
    from manifests
    where p4_program is not null  -- only samples with method fpga have a program
    union
    select
        sample,
        'sampling' as reason,
        one_in::varchar as detail
    from manifests
    where one_in > 1
    union
    select
        sample,
        item.*
    from declared
),

described as (
    select
        sample,
        reason,
        list_position(['trial', 'filter', 'p4', 'sampling'], reason) as place,
        case
            when reason = 'filter' then concat_ws(' ', 'filter', detail)
            when reason = 'p4' then concat_ws(' ', 'P4 program', detail)
            when reason = 'sampling' and detail is not null then 'one frame in ' || detail
            else reason
        end as description
    from reasons
),

grouped as (
    select
        sample,
        place,
        reason,
        string_agg(description, '; ' order by description) as description
    from described
    group by sample, place, reason
),

final as (
    select
        sample,
        string_agg(reason, ', ' order by place) as restriction,
        string_agg(description, '; ' order by place) as restriction_detail
    from grouped
    group by sample
)

select * from final
