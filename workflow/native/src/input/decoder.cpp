#include "input/decoder.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <initializer_list>

#include "input/codecs/codec.hpp"

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
            const ssize_t bytes_read = ::read(descriptor_, into, room);
            if (bytes_read >= 0) {
                bytes_ += static_cast<std::size_t>(bytes_read);
                ended_ = bytes_read == 0;
                return static_cast<std::size_t>(bytes_read);
            }
            if (errno != EINTR) {
                const int number = errno;
                return fail("read_error", std::strerror(number), number);
            }
        }
    }

    [[nodiscard]] std::optional<std::uint64_t> file_bytes() const override {
        return ended_ ? std::optional(bytes_) : std::nullopt;
    }

  private:
    int descriptor_;
    bool owns_;
    std::uint64_t bytes_ = 0;
    bool ended_ = false;
};

class MemoryStream final : public ByteStream {
  public:
    explicit MemoryStream(Bytes bytes) : rest_(bytes) {}

    std::size_t read(std::byte* into, std::size_t room) override {
        const std::size_t take = std::min(room, rest_.size());
        std::copy_n(rest_.data(), take, into);
        rest_ = rest_.subspan(take);
        bytes_ += take;
        ended_ = take == 0;
        return take;
    }

    [[nodiscard]] std::optional<std::uint64_t> file_bytes() const override {
        return ended_ ? std::optional(bytes_) : std::nullopt;
    }

  private:
    Bytes rest_;
    std::uint64_t bytes_ = 0;
    bool ended_ = false;
};

bool starts_with(Bytes head, std::initializer_list<unsigned> magic) {
    return head.size() >= magic.size() &&
           std::equal(magic.begin(), magic.end(), head.begin(),
                      [](unsigned want, std::byte have) { return std::to_integer<unsigned>(have) == want; });
}

// Returns null if this build does not have the library for the compression.
MakeDecoder* decoder_factory(Compression compression) {
    switch (compression) {
#ifdef ACAPELLA_HAS_GZIP
        case Compression::gzip:
            return gzip_decoder;
#endif
#ifdef ACAPELLA_HAS_ZSTD
        case Compression::zstd:
            return zstd_decoder;
#endif
#ifdef ACAPELLA_HAS_LZ4
        case Compression::lz4:
            return lz4_decoder;
#endif
        default:
            return nullptr;
    }
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

bool is_supported(Compression compression) {
    return compression == Compression::none || decoder_factory(compression) != nullptr;
}

std::unique_ptr<ByteStream> decoder_from(Compression compression, std::unique_ptr<ByteStream> raw,
                                         const ByteStream::Start& start, const DecompressionLimits& limits) {
#ifdef ACAPELLA_HAS_GZIP
    if (start.inside && compression == Compression::gzip) {
        return gzip_decoder_from(std::move(raw), start, limits);
    }
#endif
#ifdef ACAPELLA_HAS_LZ4
    if (start.inside && compression == Compression::lz4) {
        return lz4_decoder_from(std::move(raw), start, limits);
    }
#endif
    return decoder(compression, std::move(raw), {}, limits);
}

std::unique_ptr<ByteStream> decoder(Compression compression, std::unique_ptr<ByteStream> raw, Bytes head,
                                    const DecompressionLimits& limits) {
    return decoder_factory(compression)(std::move(raw), head, limits);
}

}  // namespace acapella::input
