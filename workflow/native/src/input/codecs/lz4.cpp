#include <lz4frame.h>

#include <algorithm>

#include "input/codecs/codec.hpp"

namespace acapella::input {
namespace {

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
            std::size_t made = room;
            std::size_t taken = std::min(ready.size(), pending_ ? pending_ : kFirst);  // as for zstd
            const std::size_t answer = LZ4F_decompress(context_, into, &made, ready.data(), &taken, nullptr);
            if (LZ4F_isError(answer)) {
                return stop(behind_, std::string("lz4: ") + LZ4F_getErrorName(answer));
            }
            pending_ = answer;
            behind_ = pending_ == 0;
            input_.consume(taken);
            more_inside_ = made == room && pending_ != 0;
            if (made > 0) {
                return made;
            }
        }
        return 0;
    }

  private:
    static constexpr std::size_t kFirst = 7;  // the shortest header

    LZ4F_dctx* context_ = nullptr;
    std::size_t pending_ = 0;
    bool more_inside_ = false;
    bool behind_ = false;  // a whole frame lies behind, and no other has begun
};

}  // namespace

std::unique_ptr<ByteStream> lz4_decoder(std::unique_ptr<ByteStream> raw, Bytes head,
                                        const DecompressionLimits& limits) {
    return std::make_unique<Lz4Decoder>(std::move(raw), head, limits);
}

}  // namespace acapella::input
