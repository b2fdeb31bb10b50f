#include <lz4frame.h>

#include "input/codecs/codec.hpp"

namespace acapella::input {
namespace {

// The lz4 frame format, https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md.
class Lz4Decoder final : public FrameDecoder {
  public:
    Lz4Decoder(std::unique_ptr<ByteStream> raw, Bytes head, const DecompressionLimits& limits)
        : FrameDecoder(std::move(raw), head, limits, "lz4", kFirst) {
        done_ = LZ4F_isError(LZ4F_createDecompressionContext(&context_, LZ4F_VERSION)) != 0;
        if (done_) {
            fail("bad_compression", "cannot initialize lz4");
        }
    }

    ~Lz4Decoder() override { LZ4F_freeDecompressionContext(context_); }

  private:
    Step step(Bytes in, std::byte* into, std::size_t room) override {
        std::size_t consumed = in.size();
        const std::size_t result = LZ4F_decompress(context_, into, &room, in.data(), &consumed, nullptr);
        if (LZ4F_isError(result)) {
            return {.error = LZ4F_getErrorName(result)};
        }
        return {consumed, room, result};
    }

    static constexpr std::size_t kFirst = 7;  // the shortest header

    LZ4F_dctx* context_ = nullptr;
};

}  // namespace

std::unique_ptr<ByteStream> lz4_decoder(std::unique_ptr<ByteStream> raw, Bytes head,
                                        const DecompressionLimits& limits) {
    return std::make_unique<Lz4Decoder>(std::move(raw), head, limits);
}

}  // namespace acapella::input
