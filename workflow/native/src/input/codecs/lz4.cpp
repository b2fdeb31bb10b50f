#include <lz4.h>
#include <lz4frame.h>

#include <array>
#include <string>
#include <utility>

#include "input/codecs/codec.hpp"
#include "input/codecs/lz4_blocks.hpp"

namespace acapella::input {
namespace {

// The lz4 frame format, https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md.
class Lz4Decoder final : public FrameDecoder {
  public:
    Lz4Decoder(std::unique_ptr<ByteStream> raw, Bytes head, const DecompressionLimits& limits)
        : FrameDecoder(std::move(raw), head, limits, "lz4", kMinHeader) {
        create();
    }

    // Begins at a block inside a frame.
    Lz4Decoder(std::unique_ptr<ByteStream> raw, const Start& start, const DecompressionLimits& limits)
        : FrameDecoder(std::move(raw), {}, limits, "lz4", kBlockHeader),
          blocks_(Lz4Frame::unpack(start.state)),
          resumed_(true) {
        create();
        if (!done_ && !resume(start.window)) {
            done_ = true;
            fail("bad_compression", "lz4: cannot begin inside a frame");
        }
    }

    ~Lz4Decoder() override { LZ4F_freeDecompressionContext(context_); }

  private:
    void create() {
        done_ = LZ4F_isError(LZ4F_createDecompressionContext(&context_, LZ4F_VERSION)) != 0;
        if (done_) {
            fail("bad_compression", "cannot initialize lz4");
        }
    }

    // Stops at the end of a block or of its header, so that starts are between blocks.
    Step step(Bytes in, std::byte* into, std::size_t room) override {
        if (trailer_ || blocks_.in_blocks()) in = in.first(std::min(in.size(), blocks_.bytes_left()));
        if (trailer_) {
            trailer_ = in.size() < blocks_.bytes_left();
            blocks_.advance(in);
            return {in.size(), 0, trailer_ ? blocks_.bytes_left() : 0};
        }
        std::size_t consumed = in.size();
        std::size_t result = LZ4F_decompress(context_, into, &room, in.data(), &consumed, nullptr);
        if (LZ4F_isError(result)) {
            return {.error = LZ4F_getErrorName(result)};
        }
        blocks_.advance(in.first(consumed));
        if (resumed_ && result == 0) {
            resumed_ = false;
            trailer_ = blocks_.frame().content_checksum;
            result = trailer_ ? blocks_.bytes_left() : 0;
        }
        return {consumed, room, result};
    }

    void on_step(Bytes produced, bool more_output) override {
        if (resumed_) return;
        if (!blocks_.in_blocks()) history_.clear();
        if (blocks_.frame().linked) {
            history_.insert(history_.end(), produced.begin(), produced.end());
            if (history_.size() > 2 * kWindow) history_.erase(history_.begin(), history_.end() - kWindow);
        }
        if (blocks_.at_block() && !more_output && is_start_due(produced.size())) add_start(produced.size());
    }

    void add_start(std::size_t unread) {
        const Lz4Frame& frame = blocks_.frame();
        if (frame.linked && frame.block_checksums) return;  // a block with the window would need a checksum
        const std::size_t size = std::min(history_.size(), kWindow);
        std::string packed(frame.linked ? static_cast<std::size_t>(LZ4_compressBound(kWindow)) : 0, '\0');
        if (frame.linked) {
            const int packed_size =
                LZ4_compress_default(reinterpret_cast<const char*>(history_.data() + history_.size() - size),
                                     packed.data(), static_cast<int>(size), static_cast<int>(packed.size()));
            if (packed_size <= 0) return;
            packed.resize(static_cast<std::size_t>(packed_size));
        }
        add_start_inside(unread, input_.consumed(), frame.pack(), std::move(packed));
    }

    // Decodes a header like that of the frame, and a block with the window, whose output is not returned.
    bool resume(const std::string& window) {
        const Lz4Frame& frame = blocks_.frame();
        std::vector<std::byte> head(LZ4F_HEADER_SIZE_MAX);
        LZ4F_cctx* compression = nullptr;
        if (LZ4F_isError(LZ4F_createCompressionContext(&compression, LZ4F_VERSION)) != 0) return false;
        LZ4F_preferences_t preferences{};
        preferences.frameInfo.blockSizeID = static_cast<LZ4F_blockSizeID_t>(frame.block_size);
        preferences.frameInfo.blockMode = frame.linked ? LZ4F_blockLinked : LZ4F_blockIndependent;
        preferences.frameInfo.blockChecksumFlag =
            frame.block_checksums ? LZ4F_blockChecksumEnabled : LZ4F_noBlockChecksum;
        const std::size_t size = LZ4F_compressBegin(compression, head.data(), head.size(), &preferences);
        LZ4F_freeCompressionContext(compression);
        if (LZ4F_isError(size) != 0) return false;
        head.resize(size);
        if (!window.empty() && !(frame.linked && !frame.block_checksums && add_block(head, window)))
            return false;
        return discard(head);
    }

    // Adds an uncompressed block that contains the window.
    static bool add_block(std::vector<std::byte>& head, const std::string& window) {
        std::vector<std::byte> plain(kWindow);
        const int size = LZ4_decompress_safe(window.data(), reinterpret_cast<char*>(plain.data()),
                                             static_cast<int>(window.size()), static_cast<int>(plain.size()));
        if (size <= 0) return false;
        const std::uint32_t word = 0x80000000U | static_cast<std::uint32_t>(size);
        for (unsigned byte = 0; byte < kBlockHeader; ++byte)
            head.push_back(static_cast<std::byte>(word >> (8 * byte)));
        head.insert(head.end(), plain.begin(), plain.begin() + size);
        return true;
    }

    bool discard(Bytes head) {
        std::vector<std::byte> output(kWindow);
        std::size_t room = output.size();
        while (!head.empty()) {
            std::size_t consumed = head.size();
            room = output.size();
            if (LZ4F_isError(
                    LZ4F_decompress(context_, output.data(), &room, head.data(), &consumed, nullptr)) != 0)
                return false;
            if (consumed == 0 && room == 0) return false;
            head = head.subspan(consumed);
        }
        do {  // what the library has not returned yet
            std::size_t consumed = 0;
            room = output.size();
            if (LZ4F_isError(LZ4F_decompress(context_, output.data(), &room, nullptr, &consumed, nullptr)) !=
                0)
                return false;
        } while (room > 0);
        return true;
    }

    static constexpr std::size_t kMinHeader = 7;  // the shortest header
    static constexpr std::size_t kBlockHeader = 4;
    static constexpr std::size_t kWindow = std::size_t{64} << 10;

    LZ4F_dctx* context_ = nullptr;
    Lz4Blocks blocks_;
    std::vector<std::byte>
        history_;           // with linked blocks: the last kWindow bytes of the frame's output, or more
    bool resumed_ = false;  // in the frame of the start, whose header was not read
    bool trailer_ = false;  // in the checksum of that frame
};

}  // namespace

std::unique_ptr<ByteStream> lz4_decoder(std::unique_ptr<ByteStream> raw, Bytes head,
                                        const DecompressionLimits& limits) {
    return std::make_unique<Lz4Decoder>(std::move(raw), head, limits);
}

std::unique_ptr<ByteStream> lz4_decoder_from(std::unique_ptr<ByteStream> raw, const ByteStream::Start& start,
                                             const DecompressionLimits& limits) {
    return std::make_unique<Lz4Decoder>(std::move(raw), start, limits);
}

}  // namespace acapella::input
