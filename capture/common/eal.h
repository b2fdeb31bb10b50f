/* Start of DPDK's environment (EAL) that leaves no files. */
#ifndef ACAPELLA_EAL_H
#define ACAPELLA_EAL_H

/* Calls rte_eal_init. EAL creates an empty runtime directory even if it does not need one; for other users
 * than root that is /tmp/dpdk, which only the first user can write. Therefore EAL gets a separate directory
 * in TMPDIR or /tmp, which is removed after the start. */
int eal_start(int count, char **arguments);

#endif
