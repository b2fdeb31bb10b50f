-- One row per sample and header label: the number of frames with it, and of its occurrences. Payload is not a header:
-- tshark's names for it (text, media, images) count as one occurrence of Data per frame. guessed_frames: frames in
-- which only the payload indicates the header: the flow is unknown data (column app of the flow table), or tshark has a
-- heuristic dissector for the header and neither port of the flow is registered for it.
with

flow_stacks as (
    select * from flow_stacks
),

flows as (
    select * from flows
),

innermost as (
    select * from innermost
),

heuristics as (
    select * from heuristics
),

carriers as (
    select * from carriers
),

payload_kinds as (
    select * from payload_kinds
),

named_stacks as (
    select
        sample,
        stack,
        regexp_extract(stack, '^.*/(TCP|UDP|SCTP|DCCP)/', 1) as transport,
        regexp_extract(stack, '^.*/(?:TCP|UDP|SCTP|DCCP)/([^/]+)', 1) as named
    from innermost
),

judged as (
    select
        flow_stacks.sample,
        flow_stacks.stack,
        flow_stacks.frames,
        coalesce(flows.app = 'data', false) as is_unknown,
        coalesce(
            flows.src_port is not null and not list_has_any(heuristics.ports, [flows.src_port, flows.dst_port]), false
        ) as is_heuristic
    from flow_stacks
    inner join named_stacks on flow_stacks.sample = named_stacks.sample and flow_stacks.stack = named_stacks.stack
    left join flows on flow_stacks.sample = flows.sample and flow_stacks.flow = flows.flow
    left join heuristics on named_stacks.named = heuristics.label and named_stacks.transport = heuristics.transport
),

stacks as (
    select
        sample,
        stack,
        sum(frames) as frames,
        coalesce(sum(frames) filter (where is_unknown), 0) as unknown_frames,
        coalesce(sum(frames) filter (where is_unknown or is_heuristic), 0) as heuristic_frames
    from judged
    group by sample, stack
),

labels as (
    select
        stacks.sample,
        stacks.stack,
        stacks.frames,
        stacks.unknown_frames,
        stacks.heuristic_frames,
        '/' || regexp_extract(stacks.stack, '^.*/(?:TCP|UDP|SCTP|DCCP)/(.*)$', 1) || '/' as payload,
        unnest(string_split(stacks.stack, '/')) as header
    from stacks
    where stacks.stack <> ''
),

repeated as (
    select
        labels.sample,
        labels.stack,
        labels.header,
        labels.frames,
        count(*) as times,
        max(
            case
                when carriers.label is not null then 0
                when starts_with(labels.payload, '/' || labels.header || '/') then labels.heuristic_frames
                when contains(labels.payload, '/' || labels.header || '/') then labels.unknown_frames
                else 0
            end
        ) as guessed
    from labels
    left join carriers on labels.header = carriers.label
    anti join payload_kinds on labels.header = payload_kinds.label
    group by labels.sample, labels.stack, labels.header, labels.frames
    union all
    select distinct
        labels.sample,
        labels.stack,
        'Data' as header,
        labels.frames,
        1 as times,
        0 as guessed
    from labels
    semi join payload_kinds on labels.header = payload_kinds.label
),

final as (
    select
        sample,
        header,
        sum(frames)::ubigint as frames,
        sum(frames * times)::ubigint as occurrences,
        sum(guessed)::ubigint as guessed_frames
    from repeated
    group by sample, header
    order by sample, header
)

select * from final
