-- One row per sample of a release: its line of samples.tsv, and its acap.
with

sheet as (
    select * from read_csv(
        'samples.tsv',
        delim = '\t',
        header = true,
        quote = '',
        escape = '',
        nullstr = '',
        columns = {
            'sample': 'varchar',
            'site': 'varchar',
            'port': 'varchar',
            'direction': 'varchar',
            'method': 'varchar',
            'frames': 'ubigint',
            'bytes': 'ubigint',
            'snaplen': 'bigint',
            'cut_frames': 'ubigint',
            'dropped_kernel': 'ubigint',
            'filtered': 'boolean',
            'one_in': 'ubigint',
            'sampled_out': 'ubigint',
            'restriction': 'varchar',
            'excluded': 'varchar'
        }
    )
),

final as (
    select
        *,
        'acap/' || sample || '.parquet' as acap
    from sheet
    order by sample
)

select * from final
