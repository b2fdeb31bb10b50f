-- One row per bin of frame lengths: the bins of RMON (RFC 2819), but for lengths without FCS, extended to jumbo frames.
with

final as (
    select
        listed.bin,
        listed.bin_lo,
        listed.bin_hi
    from (
        values
        ('<64', 0, 63),
        ('64', 64, 64),
        ('65-127', 65, 127),
        ('128-255', 128, 255),
        ('256-511', 256, 511),
        ('512-1023', 512, 1023),
        ('1024-1518', 1024, 1518),
        ('1519-2047', 1519, 2047),
        ('2048-4095', 2048, 4095),
        ('4096-9215', 4096, 9215),
        ('>9215', 9216, null)
    ) as listed (bin, bin_lo, bin_hi)
    order by listed.bin_lo
)

select * from final
