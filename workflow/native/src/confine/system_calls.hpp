// Seccomp filters for the system calls that are blocked for a confined program.
#pragma once

#include <sys/types.h>

namespace acapella::confine {

// Returns true if there is a filter for this architecture.
bool has_filter();

// Blocks (EPERM) sockets and all other ways to access anything except its files and threads. Requires
// no_new_privs. Uses only prctl; false without seccomp. With `allow_listen` a program may create, bind and
// listen on Unix sockets, but not connect.
bool refuse_system_calls(bool allow_listen = false);

// Blocks signals to all processes except `own`, and changes of limits of all except `own` and the caller.
// Without Landlock ABI 6 nothing else prevents signals to other processes of the user. Otherwise as above.
bool refuse_signals(pid_t own);

// Blocks System V messages, semaphores and shared memory. Otherwise as above.
bool refuse_system_v();

// Keeps this process and its children in their process group, so that they can be killed. Otherwise as above.
bool refuse_new_groups();

}  // namespace acapella::confine
