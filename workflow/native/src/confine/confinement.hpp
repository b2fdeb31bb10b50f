// Runs a program that reads hostile input with as few rights as the kernel lets us take away.
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
    std::vector<std::string>
        readable;  // files, or directories with all beneath; those that do not exist are skipped
    std::uint64_t memory_bytes;  // RLIMIT_AS
    std::uint64_t cpu_s;         // RLIMIT_CPU
    std::uint64_t file_bytes;    // RLIMIT_FSIZE
    std::uint64_t tasks;         // RLIMIT_NPROC: processes and threads, its own; see spawn
};

struct Program {
    std::string path;
    std::vector<std::string> arguments;    // with the name
    std::vector<std::string> environment;  // NAME=value
    int standard_input;
    int standard_output;
    int standard_error;
};

// What the kernel offers.
struct KernelSupport {
    int landlock_abi = 0;     // 0: none
    bool seccomp = false;     // and there is a filter for this architecture
    bool other_user = false;  // we are root, and may become somebody else
};
KernelSupport kernel_support();

// Starts `program` with these rights, and no others: no network and no signals to other processes (seccomp;
// without it a network namespace), no files but `rights.readable` (Landlock), no open files but its three, no
// core dumps; if we are root, an unprivileged user id that no other process has, else a user namespace of its
// own: only so are its processes counted apart from the user's others, and their number limited; a process
// group of its own, which it and its children cannot leave (seccomp). What the kernel does not offer is left
// out. Only system calls run between fork and exec, so other threads may hold any lock. Raises SpawnError.
pid_t spawn(const Program& program, const Rights& rights);

// Takes rights from the calling thread and the threads and programs that it starts from here on: they write
// beneath `writable` alone, and have no network (Landlock, seccomp); Unix sockets to be connected to if it
// `allow_listen`. If it `allow_programs` programs, it and they may signal each other (Landlock from ABI 6 on;
// earlier ABIs allow all processes of the user) and share memory (System V), else it signals itself alone.
// Does without what the kernel does not offer.
void confine_self(const std::vector<std::string>& writable, bool allow_listen, bool allow_programs);

}  // namespace acapella::confine
