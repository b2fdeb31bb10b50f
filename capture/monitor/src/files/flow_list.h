/* Reads the file of --flows, which acapella writes from an expected list (schemas/generated.json): magic, the
 * number of flows (64 bits), and a struct expected_flow for each, in the byte order of the machine. */
#ifndef ACAPELLA_FLOW_LIST_H
#define ACAPELLA_FLOW_LIST_H

#include "count/monitor.h"

#define FLOW_LIST_MAGIC "ACFLWv1"

/* The caller frees `*expected`. Returns 0, or -1 with the reason in fault. */
int flow_list_read(struct expected_flow **expected, uint32_t *flows, const char *path, struct fault *fault);

#endif
