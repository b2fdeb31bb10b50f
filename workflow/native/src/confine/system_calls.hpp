// The system calls that a confined program is refused, as a filter for seccomp(2).
#pragma once

namespace acapella::confine {

// Whether there is a filter for this architecture.
bool has_filter();

// Refuses, with EPERM, sockets and all else by which a program reaches beyond its files and its own threads.
// Needs no_new_privs. Calls nothing but prctl; false where there is no seccomp. A program that `serves` may
// make, bind, and listen on Unix sockets, to which others connect; it connects to none.
bool refuse_system_calls(bool serves = false);

// Keeps this process and its children in their process group, in which they can be killed. As above.
bool refuse_new_groups();

}  // namespace acapella::confine
