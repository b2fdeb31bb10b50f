// The decompressed bytes of a capture in order, with contiguous views of the next bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "frame/record.hpp"
#include "input/byte_sink.hpp"
#include "input/decoder.hpp"
#include "input/positions/piece_sum.hpp"

namespace acapella::input {

// Reads from the kernel or the decompressor into the buffer that the views point into. mmap is not used,
// because the process would receive SIGBUS if the file were truncated during reading.
class ByteSource {
  public:
    // Throws InputError (cannot_open, unsupported_format). For read errors, see fault().
    static std::unique_ptr<ByteSource> open(const std::string& path, const DecompressionLimits& limits = {});
    // As open(), but "-" is standard input.
    static std::unique_ptr<ByteSource> open_or_stdin(const std::string& path,
                                                     const DecompressionLimits& limits = {});
    // The caller keeps ownership of the descriptor. `name` is used in messages.
    static std::unique_ptr<ByteSource> from_descriptor(int descriptor, std::string name,
                                                       const DecompressionLimits& limits = {});
    // The bytes must outlive the source.
    static std::unique_ptr<ByteSource> from_memory(Bytes bytes, std::string name,
                                                   const DecompressionLimits& limits = {});

    // Reads a stream of decompressed bytes.
    static std::unique_ptr<ByteSource> from_stream(std::unique_ptr<ByteStream> stream, std::string name);

    // Adds all decompressed bytes to `sums`, which must outlive the source. Call before any other method.
    void add_to(PieceSums& sums);

    // Returns the next `count` bytes, or fewer at the end of the data. The view is valid until the next call.
    Bytes view(std::size_t count) {
        if (size_ - at_ < count) [[unlikely]] {
            fill(count);
            count = std::min(count, size_ - at_);
        }
        return {buffer_.get() + at_, count};
    }

    // Skips bytes and returns their number: fewer than `count` only at the end of the data.
    std::uint64_t skip(std::uint64_t count) {
        if (count <= size_ - at_) [[likely]] {
            at_ += count;
            return count;
        }
        return skip_far(count);
    }

    // Copies at most `max_bytes` bytes to the sink, up to the end of the data or the sink's first error.
    // Returns the number of bytes.
    std::uint64_t copy(ByteSink& sink, std::uint64_t max_bytes);

    // Keeps views valid until the next call of pin_views(), across one change of buffers. So check
    // buffer_changed() before each frame: once it is true, a further view may invalidate the previous ones.
    void pin_views() {
        pinned_ = true;
        buffer_changed_ = false;
    }
    // Returns true if the views since pin_views() are in two buffers, which is the maximum.
    [[nodiscard]] bool buffer_changed() const { return buffer_changed_; }

    // Number of bytes skipped so far: the offset of the next view in the decompressed data.
    [[nodiscard]] std::uint64_t offset() const { return base_ + at_; }
    // Reason for an early end of the data; its kind is empty if there is none.
    [[nodiscard]] const ByteStream::Fault& fault() const { return stream_->fault(); }
    [[nodiscard]] const ByteStream& stream() const { return *stream_; }
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
    PieceSums* sums_ = nullptr;
    std::unique_ptr<std::byte[]> buffer_;
    std::size_t capacity_;
    std::unique_ptr<std::byte[]> kept_;  // the other buffer, for pin_views()
    std::size_t kept_capacity_ = 0;
    bool pinned_ = false;
    bool buffer_changed_ = false;
    std::size_t at_ = 0;
    std::size_t size_ = 0;
    std::uint64_t base_ = 0;  // offset of the buffer's first byte
    bool ended_ = false;
};

}  // namespace acapella::input
