#include "input/positions/positions.hpp"

#include <algorithm>
#include <bit>

#include "frame/cursor.hpp"
#include "input/byte_order.hpp"
#include "input/input_error.hpp"

namespace acapella::input {
namespace {

constexpr std::uint8_t kVersion = 2;
constexpr std::size_t kSumBytes = 4;
constexpr std::uint64_t kLargest = UINT64_MAX >> 1U;  // sums of two integers do not overflow

void put(std::string& out, std::uint64_t value) {
    for (; value >= 0x80; value >>= 7U) out.push_back(static_cast<char>(value | 0x80U));
    out.push_back(static_cast<char>(value));
}

class Decoder {
  public:
    Decoder(Bytes encoded, const std::string& name) : cursor_(encoded, encoded.size()), name_(name) {}

    std::uint64_t get(std::uint64_t largest = kLargest) {
        std::uint64_t value = 0;
        for (unsigned shift = 0; shift < 63; shift += 7) {
            if (!cursor_.has(1)) break;
            const std::uint64_t byte = cursor_.u8(0);
            cursor_.skip(1);
            value |= (byte & 0x7fU) << shift;
            if (byte < 0x80) return value <= largest ? value : fail();
        }
        return fail();
    }
    // Reads the number of items that follow, each of which has at least `size` bytes.
    std::size_t count(std::size_t size) { return static_cast<std::size_t>(get(cursor_.captured() / size)); }
    // Returns the next `size` bytes. The caller must check that they exist.
    std::string text(std::size_t size) {
        std::string value(size, '\0');
        cursor_.copy(0, size, reinterpret_cast<std::byte*>(value.data()));
        cursor_.skip(size);
        return value;
    }
    std::uint32_t sum() {
        std::uint32_t value = 0;
        for (unsigned byte = 0; byte < kSumBytes; ++byte)
            value |= std::uint32_t{cursor_.u8(byte)} << (8 * byte);
        cursor_.skip(kSumBytes);
        return value;
    }
    [[nodiscard]] std::size_t left() const { return cursor_.captured(); }
    std::uint64_t fail() {
        throw InputError("bad_positions", name_, "the positions of its frames are damaged");
    }

  private:
    Cursor cursor_;
    const std::string& name_;
};

std::size_t piece_count(const Positions& positions) {
    return static_cast<std::size_t>((positions.bytes + positions.piece_bytes - 1) / positions.piece_bytes);
}

void put_starts(std::string& out, const std::vector<ByteStream::Start>& starts) {
    put(out, starts.size());
    std::uint64_t compressed = 0;
    std::uint64_t decompressed = 0;
    for (const ByteStream::Start& start : starts) {
        put(out, start.compressed - compressed);
        put(out, start.decompressed - decompressed);
        put(out, start.inside ? start.state + 1U : 0U);
        compressed = start.compressed;
        decompressed = start.decompressed;
        if (!start.inside) continue;
        put(out, start.window.size());
        out += start.window;
    }
}

void get_starts(Decoder& in, Positions& positions) {
    std::uint64_t compressed = 0;
    std::uint64_t decompressed = 0;
    for (std::size_t left = in.count(3); left > 0; --left) {
        ByteStream::Start& start = positions.starts.emplace_back();
        start.compressed = compressed += in.get(kLargest - compressed);
        start.decompressed = decompressed += in.get(positions.bytes - decompressed);
        const std::uint64_t inside = in.get(UINT8_MAX + 1);
        start.inside = inside > 0;
        start.state = start.inside ? static_cast<std::uint8_t>(inside - 1) : std::uint8_t{0};
        if (start.inside) start.window = in.text(in.count(1));
    }
}

void put_pieces(std::string& out, const Positions& positions) {
    std::uint64_t frame = 0;
    for (std::size_t i = 0; i < positions.sums.size(); ++i) {
        const Positions::Piece& piece = positions.pieces[i];
        put(out, piece.frame == 0 ? 0 : piece.frame - frame);
        if (piece.frame == 0) continue;
        put(out, piece.offset - i * positions.piece_bytes);
        frame = piece.frame;
    }
    for (const std::uint32_t sum : positions.sums)
        for (unsigned byte = 0; byte < kSumBytes; ++byte) out.push_back(static_cast<char>(sum >> (8 * byte)));
}

void get_pieces(Decoder& in, Positions& positions) {
    const std::size_t count = in.count(1 + kSumBytes);
    if (count != piece_count(positions)) in.fail();
    std::uint64_t frame = 0;
    for (std::size_t i = 0; i < count; ++i) {
        Positions::Piece& piece = positions.pieces.emplace_back();
        const std::uint64_t delta = in.get(positions.frames - frame);
        if (delta == 0) continue;
        piece.frame = frame += delta;
        const std::uint64_t first = std::uint64_t{i} * positions.piece_bytes;
        const auto size = std::min<std::uint64_t>(positions.piece_bytes, positions.bytes - first);
        piece.offset = first + in.get(size - 1);
    }
    if (in.left() != count * kSumBytes) in.fail();
    for (std::size_t i = 0; i < count; ++i) positions.sums.push_back(in.sum());
}

}  // namespace

std::uint64_t Positions::longest_without_start() const {
    std::uint64_t longest = 0;
    std::uint64_t last = 0;
    for (const ByteStream::Start& start : starts) {
        longest = std::max(longest, start.decompressed - last);
        last = start.decompressed;
    }
    return std::max(longest, bytes - last);
}

std::string encode(const Positions& positions) {
    std::string out(1, static_cast<char>(kVersion));
    put(out, static_cast<unsigned>(std::countr_zero(positions.piece_bytes)));
    put(out, positions.file_bytes ? *positions.file_bytes + 1 : 0);
    put(out, positions.bytes);
    put(out, positions.frames);
    put(out, positions.leading_frames);
    put_starts(out, positions.starts);
    put(out, positions.blocks.size());
    std::uint64_t end = 0;
    for (const Positions::Block& block : positions.blocks) {
        put(out, block.offset - end);
        put(out, block.size << 1U | (block.first ? 1U : 0U));
        end = block.offset + block.size;
    }
    put(out, positions.sums.size());
    put_pieces(out, positions);
    return out;
}

Positions decode_positions(Bytes encoded, const std::string& name) {
    Decoder in(encoded, name);
    if (in.get(kVersion) != kVersion) in.fail();
    Positions positions;
    positions.piece_bytes = std::size_t{1} << in.get(std::countr_zero(kLargestPiece));
    if (positions.piece_bytes < kSmallestPiece) in.fail();
    const std::uint64_t file_bytes = in.get();
    if (file_bytes > 0) positions.file_bytes = file_bytes - 1;
    positions.bytes = in.get(kLargest / 2);
    positions.frames = in.get(positions.bytes);
    positions.leading_frames = in.get(positions.frames);
    get_starts(in, positions);
    std::uint64_t end = 0;
    for (std::size_t left = in.count(2); left > 0; --left) {
        Positions::Block block;
        block.offset = end + in.get(positions.bytes - end);
        const std::uint64_t size = in.get();
        block.first = (size & 1U) != 0;
        block.size = size >> 1U;
        if (block.size > positions.bytes - block.offset) in.fail();
        end = block.offset + block.size;
        positions.blocks.push_back(block);
    }
    get_pieces(in, positions);
    return positions;
}

PositionsBuilder::PositionsBuilder(ByteSource& source, std::size_t piece_bytes) : sums_(piece_bytes) {
    positions_.piece_bytes = piece_bytes;
    source.add_to(sums_);
}

void PositionsBuilder::on_block(std::uint64_t offset, Bytes bytes, bool first) {
    constexpr std::uint32_t kSectionHeader = 0x0a0d0d0a;  // a palindrome
    if (offset == 0) pcap_ = load<std::uint32_t>(bytes.data(), false) != kSectionHeader;
    positions_.blocks.push_back({offset, bytes.size(), first});
}

void PositionsBuilder::note(std::uint64_t frame, std::uint64_t offset) {
    if (pcap_ && frame == kLeadingFrames + 1) {
        positions_.blocks.front().size = offset;
        positions_.leading_frames = kLeadingFrames;
    }
    if (offset < next_piece_) return;
    const std::uint64_t piece = offset / positions_.piece_bytes;
    positions_.pieces.resize(static_cast<std::size_t>(piece) + 1);
    positions_.pieces.back() = {frame, offset};
    next_piece_ = (piece + 1) * positions_.piece_bytes;
}

std::string PositionsBuilder::finish(const ByteSource& source, std::uint64_t frames,
                                     std::uint64_t bytes_per_frame) {
    positions_.sums = sums_.finish();
    positions_.pieces.resize(positions_.sums.size());
    positions_.bytes = sums_.bytes();
    positions_.frames = frames;
    positions_.starts = source.stream().starts();
    positions_.file_bytes = source.stream().file_bytes();
    for (;;) {
        std::string encoded = encode(positions_);
        const std::uint64_t text_bytes = (encoded.size() + 2) / 3 * 4;
        if (text_bytes <= bytes_per_frame * frames + kFreeBytes) return encoded;
        const auto& starts = positions_.starts;
        if (std::none_of(starts.begin(), starts.end(), [](const auto& start) { return start.inside; }))
            return {};
        ByteStream::drop_every_second_window(positions_.starts);
    }
}

}  // namespace acapella::input
