/* Plausible times of frames, for C++ and for the P4 loader, which is written in C: from 1970 to the year
 * 2106, when the 32-bit seconds of classic pcap end. A timestamp outside this range indicates a wrong clock
 * or a damaged file. */
#ifndef ACAPELLA_PLAUSIBLE_TIME_HPP
#define ACAPELLA_PLAUSIBLE_TIME_HPP

#include <stdint.h>

/* The first implausible time, in ns since 1970. */
#define ACAPELLA_FIRST_IMPLAUSIBLE_NS (((int64_t)1 << 32) * 1000000000 - 1)

#endif
