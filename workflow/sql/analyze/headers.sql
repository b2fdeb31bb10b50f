-- One row per header label: frames that have it, and how often it occurs. Payload is no header: what tshark names of it
-- (text, media, images) is one occurrence of Data in a frame. guessed_frames: frames whose label above the transport
-- header is a guess of tshark's, because the flow is unknown data (column app of the flow table).
with

frames as (
    select * from frames
),

unknown_flows as (
    select flow
    from flows
    where app = 'data'
),

payload_kinds as (
    select * from payload_kinds
),

unknown_stacks as (
    select
        frames.stack,
        count(*) as frames
    from frames
    semi join unknown_flows on frames.flow = unknown_flows.flow
    group by frames.stack
),

stacks as (
    select
        stack,
        count(*) as frames
    from frames
    group by stack
),

labels as (
    select
        stacks.stack,
        stacks.frames,
        coalesce(unknown_stacks.frames, 0) as unknown_frames,
        '/' || regexp_extract(stacks.stack, '^.*/(?:TCP|UDP|SCTP|DCCP)/(.*)$', 1) || '/' as payload,
        unnest(string_split(stacks.stack, '/')) as header
    from stacks
    left join unknown_stacks on stacks.stack = unknown_stacks.stack
    where stacks.stack <> ''
),

repeated as (
    select
        labels.stack,
        labels.header,
        labels.frames,
        count(*) as times,
        max(case when contains(labels.payload, '/' || labels.header || '/') then labels.unknown_frames else 0 end)
            as guessed
    from labels
    anti join payload_kinds on labels.header = payload_kinds.label
    group by labels.stack, labels.header, labels.frames
    union all
    select distinct
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
        header,
        sum(frames)::ubigint as frames,
        sum(frames * times)::ubigint as occurrences,
        sum(guessed)::ubigint as guessed_frames
    from repeated
    group by header
    order by header
)

select * from final
