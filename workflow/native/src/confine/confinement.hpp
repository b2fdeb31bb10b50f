// Runs a program that reads untrusted input with minimal rights.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace acapella::confine {

// The program could not be started. what() is one line; `error` is errno.
class SpawnError : public std::runtime_error {
  public:
    SpawnError(const std::string& what, int error) : std::runtime_error(what), error_(error) {}
    [[nodiscard]] int error() const { return error_; }

  private:
    int error_;
};

struct Rights {
    std::vector<std::string> readable;  // files, or directories with their content; missing ones are skipped
    std::uint64_t memory_bytes;         // RLIMIT_AS
    std::uint64_t cpu_s;                // RLIMIT_CPU
    std::uint64_t file_bytes;           // RLIMIT_FSIZE
    std::uint64_t tasks;                // RLIMIT_NPROC: processes and threads of the program; see spawn()
};

struct Program {
    std::string path;
    std::vector<std::string> arguments;    // including argument 0
    std::vector<std::string> environment;  // NAME=value
    int standard_input;
    int standard_output;
    int standard_error;
};

// Confinement features of the kernel.
struct KernelSupport {
    int landlock_abi = 0;     // 0: none
    bool seccomp = false;     // supported, and a filter exists for this architecture
    bool other_user = false;  // running as root, so other user ids can be used
};
KernelSupport kernel_support();

// Starts `program` with these rights and no others:
//
// The program has no network access (seccomp, or else a network namespace) and cannot send signals to other
// processes (seccomp, Landlock). It can access only the files in `rights.readable` (Landlock), has no open
// files except its three standard streams and its executable, and creates no core dumps. As root, it is
// started with an unprivileged user id that no other process has; otherwise, it is started in a user
// namespace. If this succeeds, its processes are counted separately from the user's other processes, and
// limited. The program and its children cannot leave its process group (seccomp).
//
// Features that the kernel does not support are omitted. Only system calls are used between fork and exec, so
// other threads may hold any lock. Throws SpawnError.
pid_t spawn(const Program& program, const Rights& rights);

// Removes rights from the calling thread, and from threads and programs that it starts afterwards. They can
// write only below `writable` and have no network access (Landlock, seccomp), except that `allow_listen`
// permits listening on Unix domain sockets. With `allow_programs`, they may send signals to each other
// (since Landlock ABI 6; earlier ABIs allow signals to all processes of the user) and share memory (System
// V). Without it, they can send signals only to themselves. Features that the kernel does not support are
// omitted.
void confine_self(const std::vector<std::string>& writable, bool allow_listen, bool allow_programs);

}  // namespace acapella::confine
