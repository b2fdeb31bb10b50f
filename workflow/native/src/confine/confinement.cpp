#include "confine/confinement.hpp"

#include <fcntl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "confine/landlock_abi.hpp"
#include "confine/system_calls.hpp"

namespace acapella::confine {
namespace {

constexpr uid_t kNobody = 65534;
// Start of a range of unused user ids, above the ids allocated by distributions.
constexpr uid_t kFirstPrivateUid = 0x70000000;

class Descriptor {
  public:
    explicit Descriptor(int number = -1) : number_(number) {}
    Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        std::swap(number_, other.number_);
        return *this;
    }
    ~Descriptor() {
        if (number_ >= 0) ::close(number_);
    }
    [[nodiscard]] int number() const { return number_; }
    void close() { *this = Descriptor(); }

  private:
    int number_;
};

int landlock_abi() {
    const long abi = ::syscall(landlock::kCreateRuleset, nullptr, 0, landlock::kVersionFlag);
    return abi > 0 ? static_cast<int>(abi) : 0;
}

// Allows the rights for a path and everything below it. Skips a path that cannot be opened.
void allow(int ruleset, const std::string& path, std::uint64_t rights) {
    const Descriptor at(::open(path.c_str(), O_PATH | O_CLOEXEC));
    struct stat status {};
    if (at.number() < 0 || ::fstat(at.number(), &status) != 0) return;
    if (!S_ISDIR(status.st_mode)) rights &= landlock::kFileRights;
    const landlock::PathBeneathAttributes rule{rights, at.number()};
    (void)::syscall(landlock::kAddRule, ruleset, landlock::kPathBeneath, &rule, 0);
}

// Returns a ruleset that restricts these file rights, the network and other processes; none without Landlock.
Descriptor ruleset(std::uint64_t handled_fs) {
    const int abi = landlock_abi();
    if (abi == 0) return Descriptor();
    const landlock::RulesetAttributes attributes{handled_fs & landlock::file_system_rights(abi),
                                                 abi >= 4 ? landlock::kTcpBindAndConnect : 0,
                                                 abi >= 6 ? landlock::kAbstractSocketsAndSignals : 0};
    const std::size_t size = abi >= 6 ? 24 : abi >= 4 ? 16 : 8;  // size in this ABI
    return Descriptor(static_cast<int>(::syscall(landlock::kCreateRuleset, &attributes, size, 0)));
}

// Returns a ruleset that allows reading the readable paths.
Descriptor ruleset_of(const Rights& rights) {
    Descriptor rules = ruleset(~std::uint64_t{0});
    if (rules.number() < 0) return rules;
    for (const std::string& path : rights.readable) allow(rules.number(), path, landlock::kReadRights);
    allow(rules.number(), "/dev/null", landlock::kReadFile | landlock::kWriteFile);
    return rules;
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
    std::vector<char*> result;
    result.reserve(texts.size() + 1);
    for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
    result.push_back(nullptr);
    return result;
}

// After fork: only system calls.

struct Fault {
    const char* step;  // a string literal, so that the parent can read it
    int error;
};

// All data that the child needs, prepared before the fork.
struct Prepared {
    const Program& program;
    const Rights& rights;
    std::vector<char*> arguments;
    std::vector<char*> environment;
    Descriptor executable;
    Descriptor ruleset;
    Descriptor faults;  // the child's end of the pipe
};

[[noreturn]] void fail(const Prepared& prepared, const char* step) {
    const Fault fault{step, errno};
    (void)!::write(prepared.faults.number(), &fault, sizeof fault);
    ::_exit(127);
}

bool limit(__rlimit_resource what, std::uint64_t maximum) {
    rlimit current{};
    if (::getrlimit(what, &current) != 0) return false;
    const rlimit limits{std::min<rlim_t>(maximum, current.rlim_max),
                        std::min<rlim_t>(maximum, current.rlim_max)};
    return ::setrlimit(what, &limits) == 0;
}

// Sets descriptors 0, 1 and 2; all others except the executable are closed at exec. The streams are first
// copied to numbers above 2, so that none is overwritten.
void set_streams(const Prepared& prepared) {
    const int from[] = {prepared.program.standard_input, prepared.program.standard_output,
                        prepared.program.standard_error};
    int copies[3];
    for (int i = 0; i < 3; ++i) {
        copies[i] = ::fcntl(from[i], F_DUPFD_CLOEXEC, 3);
        if (copies[i] < 0) fail(prepared, "the standard streams");
    }
    for (int i = 0; i < 3; ++i)
        if (::dup2(copies[i], i) < 0) fail(prepared, "the standard streams");
#ifdef SYS_close_range
    constexpr unsigned kCloseWithExec = 4;  // CLOSE_RANGE_CLOEXEC
    (void)::syscall(SYS_close_range, 3U, ~0U, kCloseWithExec);
#endif
    (void)::fcntl(prepared.executable.number(), F_SETFD, 0);  // the interpreter of a script opens it
}

// Python ignores these signals. Unlike signal handlers, ignored signals remain ignored after exec.
void reset_signals() {
    for (const int number : {SIGPIPE, SIGXFSZ}) ::signal(number, SIG_DFL);
    sigset_t no_signals;
    ::sigemptyset(&no_signals);
    ::sigprocmask(SIG_SETMASK, &no_signals, nullptr);
}

// Changes the user id. Returns true if no other process has the new id.
bool become_other_user(const Prepared& prepared) {
    // Uses system calls, because the C library's functions would affect other threads.
    if (::geteuid() != 0 || ::syscall(SYS_setgroups, 0, nullptr) != 0) return false;
    const auto private_uid = kFirstPrivateUid + static_cast<uid_t>(::getpid());
    for (const uid_t id : {private_uid, kNobody}) {
        if (::syscall(SYS_setresgid, id, id, id) != 0) continue;  // a user namespace may not have this id
        if (::syscall(SYS_setresuid, id, id, id) != 0) fail(prepared, "the user id");
        return id == private_uid;
    }
    return false;
}

// Separates the process from other users, and from the network unless a filter blocks it. The kernel counts
// processes per user and user namespace, and does not limit the processes of root. Returns true if a process
// limit is enforced and counts only the processes of this program.
bool isolate(const Prepared& prepared, bool seccomp) {
    const int network = seccomp ? 0 : CLONE_NEWNET;
    const bool separated = network == 0 || ::unshare(network) == 0;
    const bool root = ::geteuid() == 0;  // if this is a user namespace, possibly also root outside it
    if (become_other_user(prepared)) return true;
    return ::unshare(CLONE_NEWUSER | (separated ? 0 : network)) == 0 && !root;
}

[[noreturn]] void run(const Prepared& prepared, bool seccomp) {
    set_streams(prepared);
    reset_signals();
    if (::setpgid(0, 0) != 0) fail(prepared, "the process group");
    if (!limit(RLIMIT_CORE, 0) || !limit(RLIMIT_AS, prepared.rights.memory_bytes) ||
        !limit(RLIMIT_CPU, prepared.rights.cpu_s) || !limit(RLIMIT_FSIZE, prepared.rights.file_bytes))
        fail(prepared, "the resource limits");
    if (isolate(prepared, seccomp) && !limit(RLIMIT_NPROC, prepared.rights.tasks))
        fail(prepared, "the process limit");
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) fail(prepared, "no_new_privs");
    if (prepared.ruleset.number() >= 0 &&
        ::syscall(landlock::kRestrictSelf, prepared.ruleset.number(), 0) != 0)
        fail(prepared, "Landlock");
    if (seccomp &&
        !(refuse_new_groups() && refuse_signals(::getpid()) && refuse_system_v() && refuse_system_calls()))
        fail(prepared, "seccomp");
    // Executes the program by its descriptor, because the new user may have no access to its parent
    // directories.
    ::syscall(SYS_execveat, prepared.executable.number(), "", prepared.arguments.data(),
              prepared.environment.data(), AT_EMPTY_PATH);
    fail(prepared, "exec");
}

}  // namespace

KernelSupport kernel_support() {
    KernelSupport found;
    found.landlock_abi = landlock_abi();
    const std::uint32_t action = SECCOMP_RET_ERRNO;
    found.seccomp = has_filter() && ::syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
    found.other_user = ::geteuid() == 0;
    return found;
}

void confine_self(const std::vector<std::string>& writable, bool allow_listen, bool allow_programs) {
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return;
    const std::uint64_t writes = landlock::file_system_rights(landlock_abi()) & ~landlock::kReadRights;
    const Descriptor rules = ruleset(writes);
    if (rules.number() >= 0) {
        for (const std::string& path : writable) allow(rules.number(), path, writes);
        allow(rules.number(), "/dev/null", landlock::kWriteFile);
        (void)::syscall(landlock::kRestrictSelf, rules.number(), 0);
    }
    // A program that is started may need signals and System V IPC: nfpcapd uses semaphores and sends signals
    // to its own threads, whose process id is not known before the fork.
    if (!allow_programs) {
        (void)refuse_signals(::getpid());
        (void)refuse_system_v();
    }
    (void)refuse_system_calls(allow_listen);
}

pid_t spawn(const Program& program, const Rights& rights) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw SpawnError("cannot create a pipe", errno);
    const Descriptor faults(ends[0]);
    Prepared prepared{program,
                      rights,
                      pointers(program.arguments),
                      pointers(program.environment),
                      Descriptor(::open(program.path.c_str(), O_PATH)),
                      ruleset_of(rights),
                      Descriptor(ends[1])};
    if (prepared.executable.number() < 0) throw SpawnError("cannot open the program", errno);
    const bool seccomp = kernel_support().seccomp;
    const pid_t child = ::fork();
    if (child < 0) throw SpawnError("cannot fork", errno);
    if (child == 0) run(prepared, seccomp);
    prepared.faults.close();
    Fault fault{};
    ssize_t bytes_read = 0;
    while ((bytes_read = ::read(faults.number(), &fault, sizeof fault)) < 0 && errno == EINTR) {
    }
    if (bytes_read != sizeof fault) return child;
    while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
    throw SpawnError(std::string("cannot start the program: ") + fault.step, fault.error);
}

}  // namespace acapella::confine
