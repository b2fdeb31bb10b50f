#include <zstd.h>

#include "input/codecs/codec.hpp"

namespace acapella::input {
namespace {

// RFC 8878; the library skips skippable frames.
class ZstdDecoder final : public FrameDecoder {
  public:
    ZstdDecoder(std::unique_ptr<ByteStream> raw, Bytes head, const DecompressionLimits& limits)
        : FrameDecoder(std::move(raw), head, limits, "zstd", kMinHeader), stream_(ZSTD_createDStream()) {}

    ~ZstdDecoder() override { ZSTD_freeDStream(stream_); }

  private:
    Step step(Bytes in, std::byte* into, std::size_t room) override {
        ZSTD_inBuffer source{in.data(), in.size(), 0};
        ZSTD_outBuffer output{into, room, 0};
        const std::size_t result = ZSTD_decompressStream(stream_, &output, &source);
        return {source.pos, output.pos, result, ZSTD_isError(result) ? ZSTD_getErrorName(result) : nullptr};
    }

    static constexpr std::size_t kMinHeader = 5;

    ZSTD_DStream* stream_;
};

}  // namespace

std::unique_ptr<ByteStream> zstd_decoder(std::unique_ptr<ByteStream> raw, Bytes head,
                                         const DecompressionLimits& limits) {
    return std::make_unique<ZstdDecoder>(std::move(raw), head, limits);
}

}  // namespace acapella::input
