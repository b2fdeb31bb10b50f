/* Plausible times of frames, for C++ and for the P4 loader, which is C: from 1970 to the last
 * instant but one of classic pcap's 32 bits of seconds, in the year 2106. A capture dated outside comes from
 * a broken clock or a broken file. */
#ifndef ACAPELLA_PLAUSIBLE_TIME_HPP
#define ACAPELLA_PLAUSIBLE_TIME_HPP

#include <stdint.h>

/* The first implausible time, in ns since 1970. */
#define ACAPELLA_NO_PLAUSIBLE_NS (((int64_t)1 << 32) * 1000000000 - 1)

#endif
