// Seccomp filters that block system calls of a confined program.
#pragma once

#include <sys/types.h>

namespace acapella::confine {

// Returns true if there is a filter for this architecture.
bool has_filter();

// Blocks (EPERM) sockets and all other ways for a program to access anything except its files and threads.
// Requires no_new_privs. Uses only prctl. Returns false without seccomp. With `allow_listen`, a program may
// create, bind and listen on Unix domain sockets, but not connect.
bool refuse_system_calls(bool allow_listen = false);

// Blocks signals to all processes except `own`, and changes to the limits of all processes except `own` and
// the caller. Without Landlock ABI 6, nothing else prevents signals to other processes of the user. Otherwise
// like refuse_system_calls().
bool refuse_signals(pid_t own);

// Blocks System V message queues, semaphores and shared memory. Otherwise like refuse_system_calls().
bool refuse_system_v();

// Keeps this process and its children in their process group, so that all of them can be killed. Otherwise
// like refuse_system_calls().
bool refuse_new_groups();

}  // namespace acapella::confine
