// Landlock's system calls and constants, some of which are missing from the C library's headers. Source:
// Documentation/userspace-api/landlock.rst and include/uapi/linux/landlock.h of Linux 6.12.
#pragma once

#include <cstdint>

namespace acapella::confine::landlock {

// The same numbers on every architecture (include/uapi/asm-generic/unistd.h).
inline constexpr long kCreateRuleset = 444;
inline constexpr long kAddRule = 445;
inline constexpr long kRestrictSelf = 446;

inline constexpr std::uint32_t kVersionFlag = 1;
inline constexpr std::uint32_t kPathBeneath = 1;

struct RulesetAttributes {
    std::uint64_t handled_fs;
    std::uint64_t handled_net;  // ABI 4
    std::uint64_t scoped;       // ABI 6
};
struct [[gnu::packed]] PathBeneathAttributes {
    std::uint64_t allowed;
    std::int32_t parent;
};

inline constexpr std::uint64_t kExecute = 1U << 0U;
inline constexpr std::uint64_t kWriteFile = 1U << 1U;
inline constexpr std::uint64_t kReadFile = 1U << 2U;
inline constexpr std::uint64_t kReadDirectory = 1U << 3U;
// the only rights that are granted for a path that is not a directory
inline constexpr std::uint64_t kFileRights = kExecute | kWriteFile | kReadFile;
// Returns the rights of an ABI version: 13 rights in version 1 (up to make_sym), refer since 2, truncate
// since 3, ioctl_dev since 5.
constexpr std::uint64_t file_system_rights(int abi) {
    const int bits = 13 + (abi >= 2 ? 1 : 0) + (abi >= 3 ? 1 : 0) + (abi >= 5 ? 1 : 0);
    return (std::uint64_t{1} << static_cast<unsigned>(bits)) - 1;
}
// Rights to read and execute.
inline constexpr std::uint64_t kReadRights = kExecute | kReadFile | kReadDirectory;
inline constexpr std::uint64_t kTcpBindAndConnect = 3;          // ABI 4
inline constexpr std::uint64_t kAbstractSocketsAndSignals = 3;  // ABI 6

}  // namespace acapella::confine::landlock
