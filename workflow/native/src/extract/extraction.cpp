#include "extract/extraction.hpp"

#include <algorithm>
#include <array>
#include <memory>

#include "input/input_error.hpp"

namespace acapella::extract {
namespace {

using input::InputError;
using input::PartsStream;
using input::Positions;

constexpr std::uint64_t kBetweenProgress = 4096;  // frames

// Reads a capture from the start or from a known position. Frames are numbered from the start of the file.
class FrameCursor {
  public:
    FrameCursor(const std::string& path, const Positions* positions, const input::DecompressionLimits& limits)
        : path_(path), positions_(positions) {
        if (positions == nullptr) {
            open(input::ByteSource::open(path, limits));
        } else {
            pieces_ = std::make_unique<input::PieceReader>(path, *positions, limits);
            open_whole();
        }
    }

    // Reads frame number `frame`, which must be larger than that of the last call.
    void read(std::uint64_t frame, const std::function<void()>& progress) {
        if (positions_ != nullptr) go_to(frame);
        while (last_ < frame) {
            if (!reader_->next(record_)) throw InputError("changed", path_, missing(frame));
            if (++last_ == after_lead_) last_ = first_of_piece_;
            if (++reads_ % kBetweenProgress == 0) progress();
        }
    }

    [[nodiscard]] const Record& record() const { return record_; }
    [[nodiscard]] const SectionBlocks& blocks() const { return blocks_; }
    input::CaptureReader& reader() { return *reader_; }

  private:
    void open(std::unique_ptr<input::ByteSource> source) {
        reader_.reset();
        source_ = std::move(source);
        reader_ = input::open_capture(*source_, &blocks_);
    }

    void open_parts(std::vector<PartsStream::Part> parts) {
        blocks_.set_parts(parts);
        open(
            input::ByteSource::from_stream(std::make_unique<PartsStream>(*pieces_, std::move(parts)), path_));
    }

    void open_whole() {
        last_ = after_lead_ = 0;
        open_parts({{0, positions_->bytes}});
    }

    // Skips to the last piece that begins at or before `frame`, if that piece is ahead. The blocks of its
    // section and the piece form a separate capture.
    void go_to(std::uint64_t frame) {
        const auto& pieces = positions_->pieces;
        std::size_t at = piece_;
        for (std::size_t i = piece_; i < pieces.size(); ++i) {
            if (pieces[i].frame > frame) break;
            if (pieces[i].frame > 0) at = i;
        }
        piece_ = at;
        const Positions::Piece piece = pieces.empty() ? Positions::Piece{} : pieces[at];
        if (piece.frame <= last_ + 1 || piece.frame <= input::PositionsBuilder::kLeadingFrames + 1) return;
        std::vector<PartsStream::Part> parts = blocks_before(piece.offset);
        if (parts.empty()) return;
        parts.push_back({piece.offset, positions_->bytes - piece.offset});
        first_of_piece_ = piece.frame;
        after_lead_ = positions_->leading_frames + 1;
        last_ = 0;
        open_parts(std::move(parts));
        if (after_lead_ == 1) {  // no frames before the piece
            last_ = piece.frame - 1;
            after_lead_ = 0;
        }
    }

    // Returns the blocks that describe a frame at `offset`.
    [[nodiscard]] std::vector<PartsStream::Part> blocks_before(std::uint64_t offset) const {
        const auto& blocks = positions_->blocks;
        auto end = std::partition_point(blocks.begin(), blocks.end(),
                                        [&](const Positions::Block& block) { return block.offset < offset; });
        auto begin = end;
        while (begin != blocks.begin() && !std::prev(begin)->first) --begin;
        std::vector<PartsStream::Part> parts;
        if (begin == blocks.begin()) return parts;
        for (--begin; begin != end; ++begin) parts.push_back({begin->offset, begin->size});
        return parts;
    }

    [[nodiscard]] std::string missing(std::uint64_t frame) const {
        const std::string& detail = reader_->info().end_detail;
        return "changed since the digest: it has no frame " + std::to_string(frame) +
               (detail.empty() ? "" : " (" + detail + ")");
    }

    const std::string& path_;
    const Positions* positions_;
    std::unique_ptr<input::PieceReader> pieces_;
    SectionBlocks blocks_;
    std::unique_ptr<input::ByteSource> source_;
    std::unique_ptr<input::CaptureReader> reader_;
    Record record_;
    std::uint64_t last_ = 0;        // number of the last frame read
    std::uint64_t after_lead_ = 0;  // number in the reader of the piece's first frame, unless 0
    std::uint64_t first_of_piece_ = 0;
    std::size_t piece_ = 0;  // of the last call of go_to()
    std::uint64_t reads_ = 0;
};

void check_values(const std::string& path, const SelectedFrame& selected, const Record& record) {
    const bool same_time =
        selected.ts_ns == SelectedFrame::kNoTime || (record.timed && record.ts_ns == selected.ts_ns);
    if (!same_time || record.wire_len != selected.wire_len || record.bytes.size() != selected.cap_len)
        throw InputError("changed", path,
                         "changed since the digest: frame " + std::to_string(selected.frame) +
                             " has a different timestamp or length");
}

}  // namespace

void SectionBlocks::set_parts(const std::vector<PartsStream::Part>& parts) {
    first_part_ = parts.front().offset;
    last_part_ = parts.back().offset;
    last_begin_ = 0;
    for (const PartsStream::Part& part : parts) last_begin_ += part.size;
    last_begin_ -= parts.back().size;
}

void SectionBlocks::on_block(std::uint64_t offset, Bytes bytes, bool first) {
    if (first) {
        blocks_.clear();
        bytes_ = 0;
        section_ = offset < last_begin_ ? first_part_ + offset : last_part_ + (offset - last_begin_);
    }
    bytes_ += bytes.size();
    if (bytes_ > kMaxBytes)
        throw InputError("too_many_interfaces", "offset " + std::to_string(offset),
                         "the interface descriptions of a section exceed 64 MiB");
    blocks_.emplace_back(bytes.begin(), bytes.end());
}

bool Extraction::add(const std::string& path, const Positions* positions,
                     std::span<const SelectedFrame> frames, const input::DecompressionLimits& limits,
                     const std::function<void()>& progress) {
    FrameCursor cursor(path, positions, limits);
    if (format_ == OutputFormat::pcap) {
        if (cursor.reader().info().format == "pcapng")
            throw InputError("unsupported_format", path, "a pcapng; its frames cannot be written to a pcap");
        writer_.copy(cursor.blocks().blocks().front());
        empty_ = false;
    }
    section_.reset();
    for (const SelectedFrame& selected : frames) {
        cursor.read(selected.frame, progress);
        if (positions == nullptr) check_values(path, selected, cursor.record());
        if (!write(cursor.reader(), cursor.record(), cursor.blocks())) return false;
    }
    return writer_.error_number() == 0;
}

bool Extraction::write(input::CaptureReader& reader, const Record& record, const SectionBlocks& blocks) {
    empty_ = false;
    const input::CaptureReader::Stored stored = reader.stored();
    if (format_ == OutputFormat::pcap) return writer_.copy(stored.record);
    if (reader.info().format == "pcapng") return copy_blocks(blocks) && writer_.copy(stored.record);
    const input::Interface& interface = reader.interfaces().front();
    if (!section_) {
        section_ = 0;
        writer_.begin_section();
        writer_.describe(interface);
    }
    const std::int64_t unit_ns = interface.tsresol == 9 ? 1 : 1000;
    return writer_.write_stored(stored, static_cast<std::uint64_t>(record.ts_ns / unit_ns));
}

// Copies the section header and interface descriptions that were not copied yet.
bool Extraction::copy_blocks(const SectionBlocks& blocks) {
    const auto& all = blocks.blocks();
    if (section_ != blocks.section()) {
        section_ = blocks.section();
        blocks_written_ = 1;
        constexpr std::size_t kLength = 16;  // offset of the section length; -1: unknown
        std::vector<std::byte> header = all.front();
        std::fill_n(header.begin() + kLength, sizeof(std::int64_t), std::byte{0xff});
        if (!writer_.copy(header)) return false;
    }
    for (; blocks_written_ < all.size(); ++blocks_written_)
        if (!writer_.copy(all[blocks_written_])) return false;
    return true;
}

bool Extraction::finish() {
    if (empty_) writer_.begin_section();
    return writer_.flush();
}

}  // namespace acapella::extract
