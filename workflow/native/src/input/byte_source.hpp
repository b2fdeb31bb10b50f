// A capture's bytes in order, decompressed, with a contiguous view of what comes next.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "frame/record.hpp"
#include "input/byte_sink.hpp"
#include "input/decoder.hpp"

namespace acapella::input {

// Copies each byte once, from the kernel or the decompressor to a buffer that the views point into. Not mmap:
// a capture that is cut while it is read would end the process with SIGBUS.
class ByteSource {
  public:
    // Raises InputError (cannot_open, read_error).
    static std::unique_ptr<ByteSource> open(const std::string& path, const DecompressionLimits& limits = {});
    // Reads a descriptor that stays the caller's; `name` stands in messages.
    static std::unique_ptr<ByteSource> from_descriptor(int descriptor, std::string name,
                                                       const DecompressionLimits& limits = {});
    // Reads bytes that outlive the source.
    static std::unique_ptr<ByteSource> from_memory(Bytes bytes, std::string name,
                                                   const DecompressionLimits& limits = {});

    // The next `count` bytes, or fewer at the end of the data; valid until the next call.
    Bytes view(std::size_t count) {
        if (size_ - at_ < count) [[unlikely]] {
            fill(count);
            count = std::min(count, size_ - at_);
        }
        return {buffer_.get() + at_, count};
    }

    // Moves on and returns how many bytes there were to skip: fewer than `count` only at the end of the data.
    std::uint64_t skip(std::uint64_t count) {
        if (count <= size_ - at_) [[likely]] {
            at_ += count;
            return count;
        }
        return skip_far(count);
    }

    // Moves on to the end, or by `most` bytes, and writes what lies between to the sink; stops at the sink's
    // first fault. Returns the number of bytes.
    std::uint64_t copy(ByteSink& sink, std::uint64_t most);

    // From here on views stay valid beyond the next call: up to the next keep(), or to a frame that is read
    // where moved() is true already.
    void pin_views() {
        pinned_ = true;
        buffer_changed_ = false;
    }
    // True where the views since keep() lie in two buffers, which is as many as there are.
    [[nodiscard]] bool buffer_changed() const { return buffer_changed_; }

    // Bytes skipped so far: where the next view starts in the decompressed data.
    [[nodiscard]] std::uint64_t offset() const { return base_ + at_; }
    // Why the data ended early; an empty kind where it did not.
    [[nodiscard]] const ByteStream::Fault& fault() const { return stream_->fault(); }
    [[nodiscard]] const std::string& name() const { return name_; }
    [[nodiscard]] Compression compression() const { return compression_; }

  private:
    ByteSource(std::unique_ptr<ByteStream> raw, std::string name, const DecompressionLimits& limits);
    void fill(std::size_t count);
    std::uint64_t skip_far(std::uint64_t count);
    void make_room(std::size_t count);
    void change_buffers();

    std::string name_;
    Compression compression_ = Compression::none;
    std::unique_ptr<ByteStream> stream_;
    std::unique_ptr<std::byte[]> buffer_;
    std::size_t capacity_;
    std::unique_ptr<std::byte[]> kept_;  // the other buffer, for keep()
    std::size_t kept_capacity_ = 0;
    bool pinned_ = false;
    bool buffer_changed_ = false;
    std::size_t at_ = 0;
    std::size_t size_ = 0;
    std::uint64_t base_ = 0;  // offset of the buffer's first byte
    bool ended_ = false;
};

}  // namespace acapella::input
