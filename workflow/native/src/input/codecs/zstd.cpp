#include <zstd.h>

#include <algorithm>

#include "input/codecs/codec.hpp"

namespace acapella::input {
namespace {

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
                return stop(behind_, std::string("zstd: ") + ZSTD_getErrorName(answer));
            }
            pending_ = answer;
            behind_ = pending_ == 0;
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
    bool behind_ = false;  // a whole frame lies behind, and no other has begun
};

}  // namespace

std::unique_ptr<ByteStream> zstd_decoder(std::unique_ptr<ByteStream> raw, Bytes head,
                                         const DecompressionLimits& limits) {
    return std::make_unique<ZstdDecoder>(std::move(raw), head, limits);
}

}  // namespace acapella::input
