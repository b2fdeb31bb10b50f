#include <zlib.h>

#include <algorithm>

#include "input/codecs/codec.hpp"

namespace acapella::input {
namespace {

// RFC 1952. Zeros after the last member are padding (tapes, block devices); any other bytes are a fault.
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
            const std::size_t size = inflate_some(ready, into, std::min(room, kMax));
            if (size > 0) {
                return size;
            }
        }
        return 0;
    }

  private:
    static constexpr std::size_t kMax = std::size_t{1} << 30;  // zlib has 32-bit lengths

    // Called between members. Returns true if another member begins.
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
        const int result = inflate(&stream_, Z_NO_FLUSH);
        input_.consume(ready.size() - stream_.avail_in);
        if (result == Z_STREAM_END) {
            inside_ = false;
            ++members_;
            end_of_frame(room - stream_.avail_out);
            inflateReset(&stream_);
        } else if (result != Z_OK && result != Z_BUF_ERROR) {
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

}  // namespace

std::unique_ptr<ByteStream> gzip_decoder(std::unique_ptr<ByteStream> raw, Bytes head,
                                         const DecompressionLimits& limits) {
    return std::make_unique<GzipDecoder>(std::move(raw), head, limits);
}

}  // namespace acapella::input
