#include "input/decoder.hpp"

#include <lz4frame.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

namespace acapella::input {
namespace {

class DescriptorStream final : public ByteStream {
  public:
    DescriptorStream(int descriptor, bool owns) : descriptor_(descriptor), owns_(owns) {}

    ~DescriptorStream() override {
        if (owns_) {
            ::close(descriptor_);
        }
    }

    std::size_t read(std::byte* into, std::size_t room) override {
        for (;;) {
            const ssize_t got = ::read(descriptor_, into, room);
            if (got >= 0) {
                return static_cast<std::size_t>(got);
            }
            if (errno != EINTR) {
                const int number = errno;
                return fail("read_error", std::strerror(number), number);
            }
        }
    }

  private:
    int descriptor_;
    bool owns_;
};

class MemoryStream final : public ByteStream {
  public:
    explicit MemoryStream(Bytes bytes) : rest_(bytes) {}

    std::size_t read(std::byte* into, std::size_t room) override {
        const std::size_t take = std::min(room, rest_.size());
        std::copy_n(rest_.data(), take, into);
        rest_ = rest_.subspan(take);
        return take;
    }

  private:
    Bytes rest_;
};

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

// Common to the three decoders: the input, the limits, and the meaning of the end of the compressed data.
class Decoder : public ByteStream {
  public:
    std::size_t read(std::byte* into, std::size_t room) final {
        if (done_) {
            return 0;
        }
        const std::size_t produced = decode(into, room);
        produced_ += produced;
        const bool above_ratio =
            produced_ > DecompressionLimits::kFreeOfRatio && produced_ / limits_.ratio > input_.consumed();
        return produced_ > limits_.bytes || above_ratio ? exceed(produced) : produced;
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

    // Call if the library fails: `trailing`: on bytes after the last frame; else inside a frame.
    std::size_t stop(bool trailing, std::string what) {
        done_ = true;
        return trailing ? fail("trailing_bytes",
                               "bytes after the last " + what.substr(0, what.find(':')) + " frame")
                        : fail("bad_compression", std::move(what));
    }

    CompressedInput input_;
    bool done_ = false;

  private:
    // Returns how many of the last `produced` bytes are within the limits.
    std::size_t exceed(std::size_t produced) {
        done_ = true;
        fault_ = {};  // the limit was reached before any fault found later
        if (produced_ <= limits_.bytes) {
            return fail("decompression_limit", "decompressed bytes exceed " + std::to_string(limits_.ratio) +
                                                   " times the compressed bytes (--max-ratio)");
        }
        fail("decompression_limit",
             "more than " + std::to_string(limits_.bytes) + " decompressed bytes (--max-decompressed)");
        return static_cast<std::size_t>(limits_.bytes - std::min(limits_.bytes, produced_ - produced));
    }

    DecompressionLimits limits_;
    std::uint64_t produced_ = 0;
};

// RFC 1952. Zeros after the last member are padding (tapes, block devices); other bytes there are a fault.
class GzipDecoder final : public Decoder {
  public:
    GzipDecoder(std::unique_ptr<ByteStream> raw, Bytes head, const DecompressionLimits& limits)
        : Decoder(std::move(raw), head, limits) {
        constexpr int kGzipOnly = 16;
        done_ = inflateInit2(&stream_, MAX_WBITS + kGzipOnly) != Z_OK;
        if (done_) {
            fail("bad_compression", "cannot initialize zlib");
        }
    }

    ~GzipDecoder() override { inflateEnd(&stream_); }

    std::size_t decode(std::byte* into, std::size_t room) override {
        while (!done_) {
            const Bytes ready = input_.ready();
            if (ready.empty()) {
                done_ = true;
                return end_of_input(inside_);
            }
            if (!inside_ && members_ > 0 && !next_member(ready)) {
                continue;
            }
            inside_ = true;
            const std::size_t produced = inflate_some(ready, into, std::min(room, kMax));
            if (produced > 0) {
                return produced;
            }
        }
        return 0;
    }

  private:
    static constexpr std::size_t kMax = std::size_t{1} << 30;  // zlib has 32-bit lengths

    // Called between members: whether another one begins.
    bool next_member(Bytes ready) {
        if (ready[0] == std::byte{0x1f} && !padded_) {
            return true;
        }
        const auto other =
            std::find_if(ready.begin(), ready.end(), [](std::byte b) { return b != std::byte{0}; });
        input_.consume(static_cast<std::size_t>(other - ready.begin()));
        padded_ = true;
        if (other != ready.end()) {
            done_ = true;
            fail("trailing_bytes", "bytes after the last gzip member");
        }
        return false;
    }

    std::size_t inflate_some(Bytes ready, std::byte* into, std::size_t room) {
        stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(ready.data()));
        stream_.avail_in = static_cast<uInt>(ready.size());
        stream_.next_out = reinterpret_cast<Bytef*>(into);
        stream_.avail_out = static_cast<uInt>(room);
        const int answer = inflate(&stream_, Z_NO_FLUSH);
        input_.consume(ready.size() - stream_.avail_in);
        if (answer == Z_STREAM_END) {
            inside_ = false;
            ++members_;
            inflateReset(&stream_);
        } else if (answer != Z_OK && answer != Z_BUF_ERROR) {
            done_ = true;
            fail("bad_compression", std::string("gzip: ") + (stream_.msg ? stream_.msg : "damaged"));
        }
        return room - stream_.avail_out;
    }

    z_stream stream_{};
    bool inside_ = false;
    bool padded_ = false;
    std::size_t members_ = 0;
};

// RFC 8878; the library skips skippable frames.
class ZstdDecoder final : public Decoder {
  public:
    ZstdDecoder(std::unique_ptr<ByteStream> raw, Bytes head, const DecompressionLimits& limits)
        : Decoder(std::move(raw), head, limits), stream_(ZSTD_createDStream()) {}

    ~ZstdDecoder() override { ZSTD_freeDStream(stream_); }

    std::size_t decode(std::byte* into, std::size_t room) override {
        while (!done_) {
            // The library may have pending output: get it before reading more input.
            const Bytes ready = more_inside_ ? Bytes{} : input_.ready();
            if (ready.empty() && !more_inside_) {
                done_ = true;
                return end_of_input(pending_ != 0);
            }
            // Not more than the library asks for, because it returns no output of a call with an error.
            ZSTD_inBuffer in{ready.data(), std::min(ready.size(), pending_ ? pending_ : kFirst), 0};
            ZSTD_outBuffer out{into, room, 0};
            const std::size_t answer = ZSTD_decompressStream(stream_, &out, &in);
            input_.consume(in.pos);
            if (ZSTD_isError(answer)) {
                return stop(between_frames_, std::string("zstd: ") + ZSTD_getErrorName(answer));
            }
            pending_ = answer;
            between_frames_ = pending_ == 0;
            more_inside_ = out.pos == room && pending_ != 0;
            if (out.pos > 0) {
                return out.pos;
            }
        }
        return 0;
    }

  private:
    static constexpr std::size_t kFirst = 5;  // the shortest prefix that determines the header's length

    ZSTD_DStream* stream_;
    std::size_t pending_ = 0;
    bool more_inside_ = false;
    bool between_frames_ = false;  // a frame has ended, and no other has begun
};

// The lz4 frame format, https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md.
class Lz4Decoder final : public Decoder {
  public:
    Lz4Decoder(std::unique_ptr<ByteStream> raw, Bytes head, const DecompressionLimits& limits)
        : Decoder(std::move(raw), head, limits) {
        done_ = LZ4F_isError(LZ4F_createDecompressionContext(&context_, LZ4F_VERSION)) != 0;
        if (done_) {
            fail("bad_compression", "cannot initialize lz4");
        }
    }

    ~Lz4Decoder() override { LZ4F_freeDecompressionContext(context_); }

    std::size_t decode(std::byte* into, std::size_t room) override {
        while (!done_) {
            const Bytes ready = more_inside_ ? Bytes{} : input_.ready();
            if (ready.empty() && !more_inside_) {
                done_ = true;
                return end_of_input(pending_ != 0);
            }
            std::size_t produced = room;
            std::size_t taken = std::min(ready.size(), pending_ ? pending_ : kFirst);  // as for zstd
            const std::size_t answer =
                LZ4F_decompress(context_, into, &produced, ready.data(), &taken, nullptr);
            if (LZ4F_isError(answer)) {
                return stop(between_frames_, std::string("lz4: ") + LZ4F_getErrorName(answer));
            }
            pending_ = answer;
            between_frames_ = pending_ == 0;
            input_.consume(taken);
            more_inside_ = produced == room && pending_ != 0;
            if (produced > 0) {
                return produced;
            }
        }
        return 0;
    }

  private:
    static constexpr std::size_t kFirst = 7;  // the shortest header

    LZ4F_dctx* context_ = nullptr;
    std::size_t pending_ = 0;
    bool more_inside_ = false;
    bool between_frames_ = false;  // a frame has ended, and no other has begun
};

bool starts_with(Bytes head, std::initializer_list<unsigned> magic) {
    return head.size() >= magic.size() &&
           std::equal(magic.begin(), magic.end(), head.begin(),
                      [](unsigned want, std::byte have) { return std::to_integer<unsigned>(have) == want; });
}

}  // namespace

std::unique_ptr<ByteStream> descriptor_stream(int descriptor, bool owns) {
    return std::make_unique<DescriptorStream>(descriptor, owns);
}

std::unique_ptr<ByteStream> memory_stream(Bytes bytes) { return std::make_unique<MemoryStream>(bytes); }

Compression detect_compression(Bytes head) {
    if (starts_with(head, {0x1f, 0x8b})) {
        return Compression::gzip;
    }
    if (starts_with(head, {0x28, 0xb5, 0x2f, 0xfd})) {
        return Compression::zstd;
    }
    if (starts_with(head, {0x04, 0x22, 0x4d, 0x18})) {
        return Compression::lz4;
    }
    return Compression::none;
}

const char* name_of(Compression compression) {
    switch (compression) {
        case Compression::gzip:
            return "gzip";
        case Compression::zstd:
            return "zstd";
        case Compression::lz4:
            return "lz4";
        case Compression::none:
            break;
    }
    return "none";
}

std::unique_ptr<ByteStream> decoder(Compression compression, std::unique_ptr<ByteStream> raw, Bytes head,
                                    const DecompressionLimits& limits) {
    switch (compression) {
        case Compression::gzip:
            return std::make_unique<GzipDecoder>(std::move(raw), head, limits);
        case Compression::zstd:
            return std::make_unique<ZstdDecoder>(std::move(raw), head, limits);
        case Compression::lz4:
            return std::make_unique<Lz4Decoder>(std::move(raw), head, limits);
        case Compression::none:
            break;
    }
    return raw;
}

}  // namespace acapella::input
