/* DPDK's environment (EAL), started without a trace on disk. */
#ifndef ACAPELLA_EAL_H
#define ACAPELLA_EAL_H

/* rte_eal_init. It makes an empty directory before it learns that it needs none; where we are not root that
 * would be /tmp/dpdk, which keeps out everybody but the first user. It gets a place of its own in TMPDIR,
 * else /tmp, gone when EAL has started. */
int eal_start(int count, char **arguments);

#endif
