#include <zlib.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "input/codecs/codec.hpp"

namespace acapella::input {
namespace {

// RFC 1952. Zeros after the last member are padding (tapes, block devices); any other bytes are a fault.
class GzipDecoder final : public Decoder {
  public:
    GzipDecoder(std::unique_ptr<ByteStream> raw, Bytes head, const DecompressionLimits& limits)
        : Decoder(std::move(raw), head, limits) {
        done_ = inflateInit2(&stream_, MAX_WBITS + kGzipOnly) != Z_OK;
        if (done_) {
            fail("bad_compression", "cannot initialize zlib");
        }
    }

    // Begins inside a member.
    GzipDecoder(std::unique_ptr<ByteStream> raw, const Start& start, const DecompressionLimits& limits)
        : Decoder(std::move(raw), {}, limits), resumed_(start), inside_(true) {
        done_ = inflateInit2(&stream_, -MAX_WBITS) != Z_OK;  // no header and no checksum
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
            if (resumed_) {
                resume(ready);
                continue;
            }
            if (trailer_ > 0) {
                const std::size_t size = std::min(trailer_, ready.size());
                input_.consume(size);
                trailer_ -= size;
                continue;
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

    // Restores the state of a start inside a member. Consumes the byte that contains the first bits of the
    // block.
    void resume(Bytes ready) {
        const Start start = *std::exchange(resumed_, std::nullopt);
        std::array<Bytef, kWindow> window;
        uLongf size = window.size();
        bool sound = uncompress(window.data(), &size, reinterpret_cast<const Bytef*>(start.window.data()),
                                static_cast<uLong>(start.window.size())) == Z_OK;
        if (const unsigned bits = start.state & 7U; bits > 0) {
            const int value = std::to_integer<int>(ready[0]) >> (8 - bits);
            sound = sound && inflatePrime(&stream_, static_cast<int>(bits), value) == Z_OK;
            input_.consume(1);
        }
        sound = sound && inflateSetDictionary(&stream_, window.data(), static_cast<uInt>(size)) == Z_OK;
        if (!sound) {
            done_ = true;
            fail("bad_compression", "gzip: cannot begin inside a member");
        }
    }

    // Call at the end of a block that is not the last one. `unread`: bytes that read() has not returned yet.
    void add_start(std::size_t unread) {
        std::array<Bytef, kWindow> window;
        uInt size = window.size();
        std::string packed(compressBound(window.size()), '\0');
        uLongf packed_size = packed.size();
        if (inflateGetDictionary(&stream_, window.data(), &size) != Z_OK ||
            compress(reinterpret_cast<Bytef*>(packed.data()), &packed_size, window.data(), size) != Z_OK) {
            return;
        }
        packed.resize(packed_size);
        const auto bits = static_cast<std::uint8_t>(stream_.data_type & 7);
        add_start_inside(unread, input_.consumed() - (bits > 0 ? 1 : 0), bits, std::move(packed));
    }

    std::size_t inflate_some(Bytes ready, std::byte* into, std::size_t room) {
        stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(ready.data()));
        stream_.avail_in = static_cast<uInt>(ready.size());
        stream_.next_out = reinterpret_cast<Bytef*>(into);
        stream_.avail_out = static_cast<uInt>(room);
        const bool due = !raw_ && is_start_due(0);
        const int result = inflate(&stream_, due ? Z_BLOCK : Z_NO_FLUSH);
        input_.consume(ready.size() - stream_.avail_in);
        constexpr int kLastBlock = 64;
        constexpr int kEndOfBlock = 128;
        if (result == Z_STREAM_END) {
            inside_ = false;
            ++members_;
            end_of_frame(room - stream_.avail_out);
            trailer_ = raw_ ? kTrailer : 0;
            raw_ = false;
            inflateReset2(&stream_, MAX_WBITS + kGzipOnly);
        } else if (due && result == Z_OK && (stream_.data_type & (kEndOfBlock | kLastBlock)) == kEndOfBlock) {
            add_start(room - stream_.avail_out);
        } else if (result != Z_OK && result != Z_BUF_ERROR) {
            done_ = true;
            fail("bad_compression", std::string("gzip: ") + (stream_.msg ? stream_.msg : "damaged"));
        }
        return room - stream_.avail_out;
    }

    static constexpr int kGzipOnly = 16;           // zlib expects a gzip header and trailer
    static constexpr std::size_t kWindow = 32768;  // of deflate
    static constexpr std::size_t kTrailer = 8;     // checksum and length of a member

    z_stream stream_{};
    std::optional<Start> resumed_;     // where to begin; none once the first byte has been read
    bool raw_ = resumed_.has_value();  // the header of the current member was not read
    std::size_t trailer_ = 0;          // bytes that are left of the member's trailer
    bool inside_ = false;
    bool padded_ = false;
    std::size_t members_ = 0;
};

}  // namespace

std::unique_ptr<ByteStream> gzip_decoder_from(std::unique_ptr<ByteStream> raw, const ByteStream::Start& start,
                                              const DecompressionLimits& limits) {
    return std::make_unique<GzipDecoder>(std::move(raw), start, limits);
}

std::unique_ptr<ByteStream> gzip_decoder(std::unique_ptr<ByteStream> raw, Bytes head,
                                         const DecompressionLimits& limits) {
    return std::make_unique<GzipDecoder>(std::move(raw), head, limits);
}

}  // namespace acapella::input
