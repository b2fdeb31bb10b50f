#ifndef ACAPELLA_P4_CONTROL_H
#define ACAPELLA_P4_CONTROL_H

#include "pipeline/program.h"

#define P4_MAX_READ 4096

/* Statements table NAME add|delete|default ..., epoch DURATION, epoch-clear REGISTER CELLS; word[0] is the
 * statement. */
int p4_control_table(struct p4 *p4, char *const word[], unsigned words, struct fault *fault);
int p4_control_epoch(struct p4 *p4, char *const word[], unsigned words, struct fault *fault);

/* Applies pending changes of table entries. */
int p4_commit(struct p4 *p4, struct fault *fault);

#endif
