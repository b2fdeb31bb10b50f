// The base of the decoders of gzip, zstd and lz4. A build contains the decoders whose libraries were found.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "input/decoder.hpp"

namespace acapella::input {

// The input of a decoder: bytes that were read but not consumed yet.
class CompressedInput {
  public:
    CompressedInput(std::unique_ptr<ByteStream> raw, Bytes head)
        : raw_(std::move(raw)), buffer_(std::max(kSize, head.size())) {
        std::copy(head.begin(), head.end(), buffer_.begin());
        size_ = head.size();
    }

    // Returns the available bytes. Once they are consumed, reads the next ones; returns none at the end.
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
    [[nodiscard]] std::optional<std::uint64_t> file_bytes() const { return raw_->file_bytes(); }

  private:
    static constexpr std::size_t kSize = std::size_t{256} << 10;

    std::unique_ptr<ByteStream> raw_;
    std::vector<std::byte> buffer_;
    std::size_t at_ = 0;
    std::size_t size_ = 0;
    std::uint64_t consumed_ = 0;
};

// Common to all decoders: the input, the limits, and the end of the compressed data.
class Decoder : public ByteStream {
  public:
    std::size_t read(std::byte* into, std::size_t room) final {
        if (done_) {
            return 0;
        }
        const std::size_t size = decode(into, room);
        produced_ += size;
        const bool above_ratio =
            produced_ > DecompressionLimits::kFreeOfRatio && produced_ / limits_.ratio > input_.consumed();
        return produced_ > limits_.bytes || above_ratio ? exceed(size) : size;
    }

    [[nodiscard]] std::optional<std::uint64_t> file_bytes() const final { return input_.file_bytes(); }

  protected:
    Decoder(std::unique_ptr<ByteStream> raw, Bytes head, const DecompressionLimits& limits)
        : input_(std::move(raw), head), limits_(limits) {}

    // Like read(), but without limits.
    virtual std::size_t decode(std::byte* into, std::size_t room) = 0;

    // Call when no compressed bytes are left. `inside`: a member or frame is incomplete.
    std::size_t end_of_input(bool inside) {
        if (!input_.fault().kind.empty()) {
            return fail(input_.fault().kind, input_.fault().what, input_.fault().number);
        }
        return inside ? fail("cut_compressed", "the compressed data is truncated") : 0;
    }

    // Call when the library fails. `after_frame`: the failure is caused by bytes after the last frame,
    // otherwise by damage inside a frame.
    std::size_t stop(bool after_frame, std::string what) {
        done_ = true;
        return after_frame ? fail("trailing_bytes",
                                  "bytes after the last " + what.substr(0, what.find(':')) + " frame")
                           : fail("bad_compression", std::move(what));
    }

    // Call when a member or frame is complete; `unread`: decompressed bytes that read() has not returned yet.
    void end_of_frame(std::size_t unread) {
        const std::uint64_t decompressed = produced_ + unread;
        if (decompressed - (starts_.empty() ? 0 : starts_.back().decompressed) >= kBetweenStarts)
            starts_.push_back({input_.consumed(), decompressed});
    }

    // Returns true if a start inside the member or frame is due; `unread` as for end_of_frame().
    [[nodiscard]] bool is_start_due(std::size_t unread) const {
        return produced_ + unread - (starts_.empty() ? 0 : starts_.back().decompressed) >= between_windows_;
    }
    // Adds a start at the current position, at offset `compressed` of the input. If there are many such
    // starts, removes every second one.
    void add_start_inside(std::size_t unread, std::uint64_t compressed, std::uint8_t state,
                          std::string window) {
        starts_.push_back({compressed, produced_ + unread, true, state, std::move(window)});
        if (++windows_ < kMaxWindows) return;
        windows_ = drop_every_second_window(starts_);
        between_windows_ *= 2;
    }

    CompressedInput input_;
    bool done_ = false;

  private:
    // Windows need up to 32 KiB (gzip) or 64 KiB (lz4) each.
    static constexpr std::uint64_t kBetweenWindows = std::uint64_t{16} << 20;
    static constexpr std::size_t kMaxWindows = 256;

    // Returns how many of the last `size` bytes may be returned; 0 if the ratio is exceeded.
    std::size_t exceed(std::size_t size) {
        done_ = true;
        fault_ = {};  // the limit was reached before the position of any later fault
        if (produced_ <= limits_.bytes) {
            return fail("decompression_limit", "decompressed bytes exceed " + std::to_string(limits_.ratio) +
                                                   " times the compressed bytes (--max-ratio)");
        }
        fail("decompression_limit",
             "more than " + std::to_string(limits_.bytes) + " decompressed bytes (--max-decompressed)");
        return static_cast<std::size_t>(limits_.bytes - std::min(limits_.bytes, produced_ - size));
    }

    DecompressionLimits limits_;
    std::uint64_t produced_ = 0;
    std::uint64_t between_windows_ = kBetweenWindows;
    std::size_t windows_ = 0;
};

// Common to zstd and lz4, whose libraries decode a sequence of frames in steps.
class FrameDecoder : public Decoder {
  protected:
    struct Step {
        std::size_t consumed = 0;
        std::size_t produced = 0;
        std::size_t pending = 0;  // compressed bytes that the frame still needs; 0: it is complete
        const char* error = nullptr;
    };

    // `first_read`: number of bytes that the library needs to determine the length of a header.
    FrameDecoder(std::unique_ptr<ByteStream> raw, Bytes head, const DecompressionLimits& limits,
                 std::string name, std::size_t first_read)
        : Decoder(std::move(raw), head, limits), name_(std::move(name)), first_read_(first_read) {}

    virtual Step step(Bytes in, std::byte* into, std::size_t room) = 0;
    // Called after each step. `more_output`: the library may have output that it has not returned yet.
    virtual void on_step(Bytes /*produced*/, bool /*more_output*/) {}

  private:
    std::size_t decode(std::byte* into, std::size_t room) final {
        while (!done_) {
            // The library may have pending output: fetch it before reading more input.
            const Bytes ready = more_output_ ? Bytes{} : input_.ready();
            if (ready.empty() && !more_output_) {
                done_ = true;
                return end_of_input(pending_ != 0);
            }
            // Pass no more than the library requests, because a call that fails returns no output.
            const Bytes in = ready.first(std::min(ready.size(), pending_ ? pending_ : first_read_));
            const Step step = this->step(in, into, room);
            input_.consume(step.consumed);
            if (step.error) {
                return stop(between_frames_, name_ + ": " + step.error);
            }
            pending_ = step.pending;
            between_frames_ = pending_ == 0;
            if (between_frames_) end_of_frame(step.produced);
            more_output_ = step.produced == room && pending_ != 0;
            on_step(Bytes(into, step.produced), more_output_);
            if (step.produced > 0) {
                return step.produced;
            }
        }
        return 0;
    }

    std::string name_;
    std::size_t first_read_;
    std::size_t pending_ = 0;
    bool more_output_ = false;
    bool between_frames_ = false;  // a frame is complete, and the next one has not begun
};

using MakeDecoder = std::unique_ptr<ByteStream>(std::unique_ptr<ByteStream> raw, Bytes head,
                                                const DecompressionLimits& limits);
using MakeDecoderFrom = std::unique_ptr<ByteStream>(std::unique_ptr<ByteStream> raw,
                                                    const ByteStream::Start& start,
                                                    const DecompressionLimits& limits);
MakeDecoder gzip_decoder;
MakeDecoder zstd_decoder;
MakeDecoder lz4_decoder;
MakeDecoderFrom gzip_decoder_from;
MakeDecoderFrom lz4_decoder_from;

}  // namespace acapella::input
