-- One row per frame and layer with a disagreement that no erratum explains, for the first frames of each kind: `rank`
-- within its kind, and `frames` of the kind. `kind_ours` and `kind_theirs`: both values if they are header tokens; for
-- `protocols`, the protocols above layer 4; else null.
with

differences as (
    select * from differences
),

pairs as (
    select * from pairs
),

kinds as (
    select
        d.layer,
        d.frame,
        d.ours,
        d.theirs,
        case
            when d.layer in ('link', 'network', 'transport') then d.ours
            when d.layer = 'protocols' then p.above
        end as kind_ours,
        case
            when d.layer in ('link', 'network', 'transport') then d.theirs
            when d.layer = 'protocols' then p.tshark_above
        end as kind_theirs
    from differences as d
    inner join pairs as p on d.frame = p.frame
    where
        d.erratum is null
        -- A difference above layer 4 is a row of `protocols`, which also differs if link, network or transport does;
        -- those have separate rows.
        and d.layer <> 'above layer 4'
        and (
            d.layer <> 'protocols'
            or p.above is distinct from p.tshark_above
            or row(p.link, p.network, p.transport)
            is not distinct from row(p.tshark_link, p.tshark_network, p.tshark_transport)
        )
),

ranked as (
    select
        *,
        row_number() over (partition by layer, kind_ours, kind_theirs order by frame) as rank,
        count(*) over (partition by layer, kind_ours, kind_theirs) as frames
    from kinds
),

final as (
    select
        layer,
        kind_ours,
        kind_theirs,
        rank,
        frames,
        frame,
        ours,
        theirs
    from ranked
    where rank <= greatest($first, 1)
)

select * from final
order by layer, kind_ours, kind_theirs, rank
