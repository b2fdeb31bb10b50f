// The base of the decoders of gzip, zstd and lz4. A build has those whose library it found.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "input/decoder.hpp"

namespace acapella::input {

// The input of a decoder: bytes that were read and not consumed yet.
class CompressedInput {
  public:
    CompressedInput(std::unique_ptr<ByteStream> raw, Bytes head)
        : raw_(std::move(raw)), buffer_(std::max(kSize, head.size())) {
        std::copy(head.begin(), head.end(), buffer_.begin());
        size_ = head.size();
    }

    // The available bytes; once they are consumed, the next ones; empty at the end.
    Bytes ready() {
        if (at_ == size_) {
            at_ = 0;
            size_ = raw_->read(buffer_.data(), buffer_.size());
        }
        return Bytes(buffer_).subspan(at_, size_ - at_);
    }

    void consume(std::size_t count) {
        at_ += count;
        consumed_ += count;
    }
    [[nodiscard]] std::uint64_t consumed() const { return consumed_; }

    [[nodiscard]] const ByteStream::Fault& fault() const { return raw_->fault(); }

  private:
    static constexpr std::size_t kSize = std::size_t{256} << 10;

    std::unique_ptr<ByteStream> raw_;
    std::vector<std::byte> buffer_;
    std::size_t at_ = 0;
    std::size_t size_ = 0;
    std::uint64_t consumed_ = 0;
};

// Common to all decoders: the input, the limits, and the meaning of the end of the compressed data.
class Decoder : public ByteStream {
  public:
    std::size_t read(std::byte* into, std::size_t room) final {
        if (done_) {
            return 0;
        }
        const std::size_t made = decode(into, room);
        made_ += made;
        const bool above_ratio =
            made_ > DecompressionLimits::kFreeOfRatio && made_ / limits_.ratio > input_.consumed();
        return made_ > limits_.bytes || above_ratio ? exceed(made) : made;
    }

  protected:
    Decoder(std::unique_ptr<ByteStream> raw, Bytes head, const DecompressionLimits& limits)
        : input_(std::move(raw), head), limits_(limits) {}

    // As read(), without limits.
    virtual std::size_t decode(std::byte* into, std::size_t room) = 0;

    // Call if no compressed bytes are left. `inside`: a member or frame is incomplete.
    std::size_t end_of_input(bool inside) {
        if (!input_.fault().kind.empty()) {
            return fail(input_.fault().kind, input_.fault().what, input_.fault().number);
        }
        return inside ? fail("cut_compressed", "the compressed data is cut") : 0;
    }

    // Call if the library fails: `behind`: on bytes after the last frame; else on damage inside one.
    std::size_t stop(bool behind, std::string what) {
        done_ = true;
        return behind ? fail("trailing_bytes",
                             "bytes after the last " + what.substr(0, what.find(':')) + " frame")
                      : fail("bad_compression", std::move(what));
    }

    CompressedInput input_;
    bool done_ = false;

  private:
    // Returns how many of the last `made` bytes are within the limits.
    std::size_t exceed(std::size_t made) {
        done_ = true;
        fault_ = {};  // the limit was reached before any fault found later
        if (made_ <= limits_.bytes) {
            return fail("decompression_limit", "decompressed bytes exceed " + std::to_string(limits_.ratio) +
                                                   " times the compressed bytes (--max-ratio)");
        }
        fail("decompression_limit",
             "more than " + std::to_string(limits_.bytes) + " decompressed bytes (--max-decompressed)");
        return static_cast<std::size_t>(limits_.bytes - std::min(limits_.bytes, made_ - made));
    }

    DecompressionLimits limits_;
    std::uint64_t made_ = 0;
};

using MakeDecoder = std::unique_ptr<ByteStream>(std::unique_ptr<ByteStream> raw, Bytes head,
                                                const DecompressionLimits& limits);
MakeDecoder gzip_decoder;
MakeDecoder zstd_decoder;
MakeDecoder lz4_decoder;

}  // namespace acapella::input
