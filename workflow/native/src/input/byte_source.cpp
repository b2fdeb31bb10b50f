#include "input/byte_source.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "input/input_error.hpp"

namespace acapella::input {
namespace {

constexpr std::size_t kBufferSize = std::size_t{256} << 10;  // stays in the L2 cache
constexpr int kPipeSize = 1 << 20;

void require_decoder(Compression compression, const std::string& name) {
    if (is_supported(compression)) return;
    const std::string codec = name_of(compression);
    const char* package = compression == Compression::gzip   ? "zlib1g-dev"
                          : compression == Compression::zstd ? "libzstd-dev"
                                                             : "liblz4-dev";
    throw InputError("unsupported_format", name,
                     "compressed with " + codec + ", but the core was built without " + codec +
                         "; decompress the file, or install " + package + " and run make setup");
}

}  // namespace

std::unique_ptr<ByteSource> ByteSource::open(const std::string& path, const DecompressionLimits& limits) {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) {
        const int number = errno;
        throw InputError("cannot_open", path, std::strerror(number), number);
    }
    auto raw = descriptor_stream(descriptor, true);
    struct stat status {};
    if (::fstat(descriptor, &status) == 0 && S_ISDIR(status.st_mode)) {
        throw InputError("cannot_open", path, "is a directory, not a capture");
    }
    // A hint to the kernel, which fails for a pipe.
    (void)::posix_fadvise(descriptor, 0, 0, POSIX_FADV_SEQUENTIAL);
    return std::unique_ptr<ByteSource>(new ByteSource(std::move(raw), path, limits));
}

std::unique_ptr<ByteSource> ByteSource::open_or_stdin(const std::string& path,
                                                      const DecompressionLimits& limits) {
    return path == "-" ? from_descriptor(STDIN_FILENO, "standard input", limits) : open(path, limits);
}

std::unique_ptr<ByteSource> ByteSource::from_descriptor(int descriptor, std::string name,
                                                        const DecompressionLimits& limits) {
    // A larger pipe needs fewer context switches. The call fails for a file.
    (void)::fcntl(descriptor, F_SETPIPE_SZ, kPipeSize);
    return std::unique_ptr<ByteSource>(
        new ByteSource(descriptor_stream(descriptor, false), std::move(name), limits));
}

std::unique_ptr<ByteSource> ByteSource::from_memory(Bytes bytes, std::string name,
                                                    const DecompressionLimits& limits) {
    return std::unique_ptr<ByteSource>(new ByteSource(memory_stream(bytes), std::move(name), limits));
}

std::unique_ptr<ByteSource> ByteSource::from_stream(std::unique_ptr<ByteStream> stream, std::string name) {
    return std::unique_ptr<ByteSource>(new ByteSource(std::move(stream), std::move(name), {}));
}

void ByteSource::add_to(PieceSums& sums) {
    sums_ = &sums;
    sums.add({buffer_.get(), size_});
}

ByteSource::ByteSource(std::unique_ptr<ByteStream> raw, std::string name, const DecompressionLimits& limits)
    : name_(std::move(name)),
      stream_(std::move(raw)),
      buffer_(std::make_unique_for_overwrite<std::byte[]>(kBufferSize)),
      capacity_(kBufferSize) {
    const Bytes head = view(kMagicBytes);
    compression_ = detect_compression(head);
    require_decoder(compression_, name_);
    if (compression_ != Compression::none) {
        // The bytes read so far are compressed. The decoder copies them, and the buffer is reused.
        std::vector<std::byte> compressed(buffer_.get(), buffer_.get() + size_);
        stream_ = decoder(compression_, std::move(stream_), compressed, limits);
        size_ = 0;
        ended_ = false;
    }
}

// Copies unread bytes to the other buffer and switches to it. Views into the old buffer remain valid.
void ByteSource::change_buffers() {
    const std::size_t left = size_ - at_;
    if (kept_capacity_ < std::max(left, kBufferSize)) {
        kept_capacity_ = std::max(left, kBufferSize);
        kept_ = std::make_unique_for_overwrite<std::byte[]>(kept_capacity_);
    }
    std::memcpy(kept_.get(), buffer_.get() + at_, left);
    std::swap(buffer_, kept_);
    std::swap(capacity_, kept_capacity_);
    base_ += at_;
    size_ = left;
    at_ = 0;
    buffer_changed_ = true;
}

void ByteSource::make_room(std::size_t count) {
    if (pinned_ && !buffer_changed_) {
        change_buffers();
    } else if (at_ > 0) {
        std::memmove(buffer_.get(), buffer_.get() + at_, size_ - at_);
        base_ += at_;
        size_ -= at_;
        at_ = 0;
    }
    if (size_ < capacity_) {
        return;
    }
    // Grow with the data, because a length field may be damaged.
    capacity_ = std::min(std::max(count, kBufferSize), capacity_ * 2);
    auto larger = std::make_unique_for_overwrite<std::byte[]>(capacity_);
    std::memcpy(larger.get(), buffer_.get(), size_);
    buffer_ = std::move(larger);
}

void ByteSource::fill(std::size_t count) {
    while (size_ - at_ < count && !ended_) {
        make_room(count);
        const std::size_t bytes_read = stream_->read(buffer_.get() + size_, capacity_ - size_);
        if (sums_ != nullptr) sums_->add({buffer_.get() + size_, bytes_read});
        size_ += bytes_read;
        ended_ = bytes_read == 0;
    }
}

std::uint64_t ByteSource::skip_far(std::uint64_t count) {
    std::uint64_t left = count;
    while (left > 0) {
        if (at_ == size_) {
            fill(1);
            if (at_ == size_) {
                break;
            }
        }
        const auto step = static_cast<std::size_t>(std::min<std::uint64_t>(left, size_ - at_));
        at_ += step;
        left -= step;
    }
    return count - left;
}

std::uint64_t ByteSource::copy(ByteSink& sink, std::uint64_t max_bytes) {
    const std::uint64_t begin = offset();
    for (std::uint64_t left = max_bytes; left > 0; left = max_bytes - (offset() - begin)) {
        const Bytes next = view(static_cast<std::size_t>(std::min<std::uint64_t>(left, kBufferSize)));
        sink.put(next.data(), next.size());
        if (next.empty() || !sink.flush_if_full()) {
            break;
        }
        skip(next.size());
    }
    sink.flush();
    return offset() - begin;
}

}  // namespace acapella::input
