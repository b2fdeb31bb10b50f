#include "kappa/spool.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

namespace acapella::kappa {
namespace {

[[noreturn]] void fail(const std::string& what, const std::string& where) {
    const int number = errno;
    throw SpoolError(where + ": " + what + ": " + std::strerror(number), number);
}

int open_nameless(const std::string& directory) {
    const int descriptor = ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (descriptor >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return descriptor;
    // For file systems without O_TMPFILE (NFS, some overlays).
    std::string name = directory + "/acapella-XXXXXX";
    const int named = ::mkostemp(name.data(), O_CLOEXEC);
    if (named >= 0) ::unlink(name.c_str());
    return named;
}

}  // namespace

Pages::~Pages() {
    if (data_ != nullptr) ::munmap(data_, capacity_);
}

void Pages::grow(std::size_t bytes) {
    if (bytes <= capacity_) return;
    const std::size_t page = bytes >= kHugePage ? kHugePage : std::size_t{4096};
    bytes = (bytes + page - 1) / page * page;
    // Memory in small pages is copied to the first huge page.
    const bool small = capacity_ < kHugePage;
    void* grown = small ? ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                        : ::mremap(data_, capacity_, bytes, MREMAP_MAYMOVE);
    if (grown == MAP_FAILED) throw std::bad_alloc();
    // A hint to the kernel: with huge pages, a random access costs one TLB miss instead of two.
    if (bytes >= kHugePage) (void)::madvise(grown, bytes, MADV_HUGEPAGE);
    if (small && data_ != nullptr) {
        std::memcpy(grown, data_, capacity_);
        ::munmap(data_, capacity_);
    }
    data_ = static_cast<std::byte*>(grown);
    capacity_ = bytes;
}

SpoolFile::SpoolFile(const std::string& directory) : descriptor_(open_nameless(directory)) {
    if (descriptor_ < 0) fail("cannot create a temporary file", directory);
}

SpoolFile::~SpoolFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
}

std::uint64_t SpoolFile::append(std::span<const std::byte> bytes) {
    const std::uint64_t start = size_;
    while (!bytes.empty()) {
        const ssize_t done = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(size_));
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) fail("cannot write", "temporary file");
        size_ += static_cast<std::uint64_t>(done);
        bytes = bytes.subspan(static_cast<std::size_t>(done));
    }
    return start;
}

void SpoolFile::read(std::uint64_t offset, std::span<std::byte> into) const {
    while (!into.empty()) {
        const ssize_t done = ::pread(descriptor_, into.data(), into.size(), static_cast<off_t>(offset));
        if (done < 0 && errno == EINTR) continue;
        if (done == 0) errno = EIO;
        if (done <= 0) fail("cannot read", "temporary file");
        offset += static_cast<std::uint64_t>(done);
        into = into.subspan(static_cast<std::size_t>(done));
    }
}

}  // namespace acapella::kappa
