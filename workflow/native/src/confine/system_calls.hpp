// The system calls that a confined program is refused, as a filter for seccomp(2).
#pragma once

#include <sys/types.h>

namespace acapella::confine {

// Whether there is a filter for this architecture.
bool has_filter();

// Refuses, with EPERM, sockets and all else by which a program reaches beyond its files and its own threads.
// Needs no_new_privs. Calls nothing but prctl; false where there is no seccomp. A program that `allow_listen`
// may make, bind, and listen on Unix sockets, to which others connect; it connects to none.
bool refuse_system_calls(bool allow_listen = false);

// Refuses signals to all processes but `own`, and limits of all but `own` and the caller. As above. Without
// Landlock's ABI 6 nothing else keeps a process from signals to others of its user.
bool refuse_signals(pid_t own);

// Refuses the messages, semaphores and memory that processes of a user share (System V). As above.
bool refuse_system_v();

// Keeps this process and its children in their process group, in which they can be killed. As above.
bool refuse_new_groups();

}  // namespace acapella::confine
