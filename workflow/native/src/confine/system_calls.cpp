#include "confine/system_calls.hpp"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace acapella::confine {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr std::uint32_t kArchitecture = 0;  // unknown: no filter
#endif
constexpr std::uint32_t kX32Calls = 0x40000000;  // x86-64 only: the same calls with other numbers

// Missing from older headers. The numbers are the same on all architectures.
constexpr std::uint32_t kIoUringSetup = 425;
constexpr std::uint32_t kIoUringEnter = 426;
constexpr std::uint32_t kIoUringRegister = 427;
constexpr std::uint32_t kClone3 = 435;
constexpr std::uint32_t kPidfdGetfd = 438;
constexpr std::uint32_t kPidfdSendSignal = 424;
constexpr std::uint32_t kOpenTree = 428;
constexpr std::uint32_t kMoveMount = 429;
constexpr std::uint32_t kFsopen = 430;
constexpr std::uint32_t kFsconfig = 431;
constexpr std::uint32_t kFsmount = 432;
constexpr std::uint32_t kFspick = 433;
constexpr std::uint32_t kProcessMadvise = 440;
constexpr std::uint32_t kMountSetattr = 442;
constexpr std::uint32_t kQuotactlFd = 443;
constexpr std::uint32_t kProcessMrelease = 448;
constexpr std::uint32_t kOpenTreeAttr = 467;

constexpr std::uint32_t kNoCall = 0x3fffffff;  // a number without a system call
#if defined(__x86_64__)
constexpr std::uint32_t kIopl = SYS_iopl;
constexpr std::uint32_t kIoperm = SYS_ioperm;
#else
constexpr std::uint32_t kIopl = kNoCall;
constexpr std::uint32_t kIoperm = kNoCall;
#endif

// clone flags that create namespaces in which a process would be root. CLONE_NEWTIME exists only in clone3,
// whose flags are in memory that a filter cannot read.
constexpr std::uint32_t kNamespaces =
    CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

constexpr std::array kRefused{
    // the network, and other processes through it
    std::uint32_t{SYS_socket},
    std::uint32_t{SYS_socketpair},
    std::uint32_t{SYS_connect},
    std::uint32_t{SYS_bind},
    std::uint32_t{SYS_listen},
    // ways to issue other system calls
    kIoUringSetup,
    kIoUringEnter,
    kIoUringRegister,
    std::uint32_t{SYS_bpf},
    // other processes
    std::uint32_t{SYS_ptrace},
    std::uint32_t{SYS_process_vm_readv},
    std::uint32_t{SYS_process_vm_writev},
    kPidfdGetfd,
    std::uint32_t{SYS_kcmp},
    kProcessMadvise,
    kProcessMrelease,
    std::uint32_t{SYS_move_pages},
    std::uint32_t{SYS_migrate_pages},
    // access to files without a path, and to files of other processes
    std::uint32_t{SYS_open_by_handle_at},
    std::uint32_t{SYS_fanotify_init},
    // the kernel
    std::uint32_t{SYS_mount},
    std::uint32_t{SYS_umount2},
    kOpenTree,
    kOpenTreeAttr,
    kMoveMount,
    kFsopen,
    kFsconfig,
    kFsmount,
    kFspick,
    kMountSetattr,
    std::uint32_t{SYS_pivot_root},
    std::uint32_t{SYS_chroot},
    std::uint32_t{SYS_setns},
    std::uint32_t{SYS_unshare},
    std::uint32_t{SYS_perf_event_open},
    std::uint32_t{SYS_userfaultfd},
    std::uint32_t{SYS_keyctl},
    std::uint32_t{SYS_add_key},
    std::uint32_t{SYS_request_key},
    std::uint32_t{SYS_init_module},
    std::uint32_t{SYS_finit_module},
    std::uint32_t{SYS_delete_module},
    std::uint32_t{SYS_kexec_load},
    std::uint32_t{SYS_kexec_file_load},
    kIopl,
    kIoperm,
    std::uint32_t{SYS_reboot},
    std::uint32_t{SYS_swapon},
    std::uint32_t{SYS_swapoff},
    std::uint32_t{SYS_settimeofday},
    std::uint32_t{SYS_clock_settime},
    std::uint32_t{SYS_adjtimex},
    std::uint32_t{SYS_quotactl},
    kQuotactlFd,
    std::uint32_t{SYS_acct},
    std::uint32_t{SYS_syslog},
};

// Allowed with allow_listen; `socket` only for Unix domain sockets.
constexpr std::array kListenCalls{std::uint32_t{SYS_socket}, std::uint32_t{SYS_socketpair},
                                  std::uint32_t{SYS_bind}, std::uint32_t{SYS_listen}};

constexpr std::size_t kBefore = 6;  // number of instructions before the blocked calls
constexpr std::size_t kLength = kBefore + kRefused.size() + 9;
static_assert(kLength < 256, "jumps are 8 bits long");

constexpr sock_filter load(std::size_t offset) {
    return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset));
}

constexpr std::array<sock_filter, kLength> filter(bool allow_listen) {
    constexpr std::size_t kRefuse = kLength - 1;
    constexpr std::size_t kEnosys = kLength - 2;
    const auto offset_to = [](std::size_t target, std::size_t at) {
        return static_cast<std::uint8_t>(target - at - 1);
    };
    const auto offset_to_refusal = [&](std::size_t at) { return offset_to(kRefuse, at); };
    std::array<sock_filter, kLength> code{};
    code[0] = load(offsetof(seccomp_data, arch));
    code[1] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 0, offset_to_refusal(1));
    code[2] = load(offsetof(seccomp_data, nr));
    code[3] = BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, kX32Calls, offset_to_refusal(3), 0);
    code[4] = BPF_JUMP(BPF_JMP | BPF_JA, 0, 0, 0);
    // Libraries fall back to clone.
    code[5] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kClone3, offset_to(kEnosys, 5), 0);
    for (std::size_t i = 0; i < kRefused.size(); ++i) {
        const bool allowed = allow_listen && std::find(kListenCalls.begin(), kListenCalls.end(),
                                                       kRefused[i]) != kListenCalls.end();
        code[kBefore + i] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed ? kNoCall : kRefused[i],
                                     offset_to_refusal(kBefore + i), 0);
    }
    constexpr std::size_t kSocket = kBefore + kRefused.size();
    code[kSocket] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 2);
    code[kSocket + 1] = load(offsetof(seccomp_data, args));
    code[kSocket + 2] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_UNIX, offset_to(kEnosys - 1, kSocket + 2),
                                 offset_to_refusal(kSocket + 2));
    constexpr std::size_t kClone = kSocket + 3;
    code[kClone] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 2);
    code[kClone + 1] =
        load(offsetof(seccomp_data, args));  // the lower half (both architectures are little-endian)
    code[kClone + 2] = BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, kNamespaces, offset_to_refusal(kClone + 2), 0);
    code[kEnosys - 1] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    code[kEnosys] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS);
    code[kRefuse] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    return code;
}

bool set_filter(const sock_filter* code, std::size_t length) {
    if constexpr (kArchitecture == 0) return false;
    const sock_fprog program{static_cast<unsigned short>(length), const_cast<sock_filter*>(code)};
    return ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

}  // namespace

bool has_filter() { return kArchitecture != 0; }

bool refuse_system_calls(bool allow_listen) {
    static constexpr std::array<sock_filter, kLength> kFilter = filter(false);
    static constexpr std::array<sock_filter, kLength> kListenFilter = filter(true);
    return set_filter(allow_listen ? kListenFilter.data() : kFilter.data(), kLength);
}

bool refuse_signals(pid_t own) {
    // Offsets in the filter. Process id 0 means the process itself for prlimit64, and its group for kill.
    constexpr std::uint8_t kAnyTarget = 8, kTarget = 10, kAllow = 12, kRefuse = 13;
    const auto jump_if = [](std::uint32_t call, std::uint8_t at, std::uint8_t target) {
        return sock_filter(
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, static_cast<std::uint8_t>(target - at - 1), 0));
    };
    const std::array<sock_filter, 14> code{{
        load(offsetof(seccomp_data, nr)),
        jump_if(SYS_prlimit64, 1, kAnyTarget),
        jump_if(SYS_kill, 2, kTarget),
        jump_if(SYS_tgkill, 3, kTarget),
        jump_if(SYS_tkill, 4, kTarget),
        jump_if(SYS_rt_sigqueueinfo, 5, kTarget),
        jump_if(SYS_rt_tgsigqueueinfo, 6, kTarget),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kPidfdSendSignal, kRefuse - 7 - 1, kAllow - 7 - 1),
        load(offsetof(seccomp_data, args)),  // the lower half, which is a whole process id
        jump_if(0, 9, kAllow),
        load(offsetof(seccomp_data, args)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(own), 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
    }};
    return set_filter(code.data(), code.size());
}

bool refuse_system_v() {
    constexpr std::array kCalls{
        std::uint32_t{SYS_msgget},     std::uint32_t{SYS_msgsnd}, std::uint32_t{SYS_msgrcv},
        std::uint32_t{SYS_msgctl},     std::uint32_t{SYS_semget}, std::uint32_t{SYS_semop},
        std::uint32_t{SYS_semtimedop}, std::uint32_t{SYS_semctl}, std::uint32_t{SYS_shmget},
        std::uint32_t{SYS_shmat},      std::uint32_t{SYS_shmctl},
    };
    std::array<sock_filter, kCalls.size() + 3> code{};
    code[0] = load(offsetof(seccomp_data, nr));
    for (std::size_t i = 0; i < kCalls.size(); ++i)
        code[i + 1] =
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kCalls[i], static_cast<std::uint8_t>(kCalls.size() - i), 0);
    code[kCalls.size() + 1] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    code[kCalls.size() + 2] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    return set_filter(code.data(), code.size());
}

bool refuse_new_groups() {
    static constexpr std::array<sock_filter, 5> kFilter{{
        load(offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_setsid, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_setpgid, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
    }};
    return set_filter(kFilter.data(), kFilter.size());
}

}  // namespace acapella::confine
