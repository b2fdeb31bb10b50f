// The system calls that a confined program is refused, as a filter for seccomp(2).
#pragma once

namespace acapella::confine {

// Refuses, with EPERM, sockets and all else by which a program reaches beyond its files and its own threads.
// Needs no_new_privs. Calls nothing but prctl; false where there is no seccomp.
bool refuse_system_calls();

}  // namespace acapella::confine
