#include "input/positions/piece_reader.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "input/input_error.hpp"

namespace acapella::input {
namespace {

constexpr char kChanged[] = "changed since the digest: ";

// Reads `size` bytes at `offset`, or fewer at the end of the file. Returns a negative number on error.
ssize_t read_at(int descriptor, std::byte* into, std::size_t size, std::uint64_t offset) {
    std::size_t done = 0;
    while (done < size) {
        const ssize_t step = ::pread(descriptor, into + done, size - done, static_cast<off_t>(offset + done));
        if (step < 0 && errno != EINTR) return step;
        if (step == 0) break;
        if (step > 0) done += static_cast<std::size_t>(step);
    }
    return static_cast<ssize_t>(done);
}

}  // namespace

PieceReader::PieceReader(std::string path, const Positions& positions, const DecompressionLimits& limits)
    : path_(std::move(path)),
      positions_(positions),
      limits_(limits),
      descriptor_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (descriptor_ < 0) throw InputError("cannot_open", path_, std::strerror(errno), errno);
    struct stat status {};
    const bool sized = ::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode);
    std::string fault;
    if (!sized)
        fault = "is not a regular file";
    else if (positions.file_bytes && static_cast<std::uint64_t>(status.st_size) != *positions.file_bytes)
        fault = kChanged + std::to_string(status.st_size) + " bytes instead of " +
                std::to_string(*positions.file_bytes);
    std::array<std::byte, kMagicBytes> head{};
    const ssize_t size = read_at(descriptor_, head.data(), head.size(), 0);
    compression_ =
        detect_compression(Bytes(head).first(static_cast<std::size_t>(std::max<ssize_t>(size, 0))));
    if (fault.empty() && !is_supported(compression_))
        fault =
            std::string("compressed with ") + name_of(compression_) + ", which this core does not support";
    if (fault.empty()) return;
    ::close(descriptor_);
    throw InputError("changed", path_, fault);
}

PieceReader::~PieceReader() { ::close(descriptor_); }

bool PieceReader::fail(std::string what, int number) {
    if (fault_.kind.empty()) fault_ = {"read_error", std::move(what), number};
    return false;
}

Bytes PieceReader::at(std::uint64_t offset) {
    if (offset >= positions_.bytes || !fault_.kind.empty()) return {};
    const auto piece = static_cast<std::size_t>(offset / positions_.piece_bytes);
    if (piece != loaded_[last_].piece) last_ = 1 - last_;
    if (piece != loaded_[last_].piece && !load(piece, loaded_[last_])) return {};
    const std::uint64_t first = std::uint64_t{piece} * positions_.piece_bytes;
    const auto size =
        static_cast<std::size_t>(std::min<std::uint64_t>(positions_.piece_bytes, positions_.bytes - first));
    return Bytes(loaded_[last_].bytes).first(size).subspan(static_cast<std::size_t>(offset - first));
}

bool PieceReader::load(std::size_t piece, Loaded& into) {
    into.piece = SIZE_MAX;
    into.bytes.resize(
        static_cast<std::size_t>(std::min<std::uint64_t>(positions_.piece_bytes, positions_.bytes)));
    const std::uint64_t first = std::uint64_t{piece} * positions_.piece_bytes;
    if (!(compression_ == Compression::none ? read_plain(first, into.bytes.data())
                                            : read_compressed(first, into.bytes.data())))
        return false;
    const auto size =
        static_cast<std::size_t>(std::min<std::uint64_t>(positions_.piece_bytes, positions_.bytes - first));
    PieceSum sum;
    sum.add(into.bytes.data(), size);
    if (sum.value() != positions_.sums[piece])
        return fail(kChanged + std::string("different content in bytes ") + std::to_string(first) + " to " +
                    std::to_string(first + size));
    into.piece = piece;
    return true;
}

bool PieceReader::read_plain(std::uint64_t offset, std::byte* into) {
    const auto size =
        static_cast<std::size_t>(std::min<std::uint64_t>(positions_.piece_bytes, positions_.bytes - offset));
    const ssize_t done = read_at(descriptor_, into, size, offset);
    if (done < 0) return fail(std::strerror(errno), errno);
    return static_cast<std::size_t>(done) == size || fail(std::string(kChanged) + "it is shorter");
}

// Begins at the last start up to `offset`, unless the decoder is between the two.
void PieceReader::begin_decoding(std::uint64_t offset) {
    const auto after = std::upper_bound(
        positions_.starts.begin(), positions_.starts.end(), offset,
        [](std::uint64_t at, const ByteStream::Start& start) { return at < start.decompressed; });
    const ByteStream::Start first;
    const ByteStream::Start& start = after == positions_.starts.begin() ? first : *std::prev(after);
    if (decoder_ && decoded_ <= offset && decoded_ >= start.decompressed) return;
    // If the position is beyond the end of the file, read() returns no bytes.
    (void)::lseek(descriptor_, static_cast<off_t>(start.compressed), SEEK_SET);
    decoder_ = decoder_from(compression_, descriptor_stream(descriptor_, false), start, limits_);
    decoded_ = start.decompressed;
}

// Decodes `size` bytes, or fewer at the end of the data.
std::size_t PieceReader::decode(std::byte* into, std::size_t size) {
    std::size_t done = 0;
    while (done < size) {
        const std::size_t step = decoder_->read(into + done, size - done);
        if (step == 0) break;
        done += step;
    }
    decoded_ += done;
    return done;
}

bool PieceReader::read_compressed(std::uint64_t offset, std::byte* into) {
    begin_decoding(offset);
    const auto size =
        static_cast<std::size_t>(std::min<std::uint64_t>(positions_.piece_bytes, positions_.bytes - offset));
    while (decoded_ < offset) {
        const auto step = static_cast<std::size_t>(std::min<std::uint64_t>(size, offset - decoded_));
        if (decode(into, step) < step) break;
    }
    if (decoded_ == offset && decode(into, size) == size) return true;
    const ByteStream::Fault& fault = decoder_->fault();
    if (fault.kind == "read_error" || fault.kind == "decompression_limit")
        return fail(fault.what, fault.number);
    return fail(std::string(kChanged) + (fault.kind.empty() ? "it is shorter" : fault.what));
}

std::size_t PartsStream::read(std::byte* into, std::size_t room) {
    for (; part_ < parts_.size(); ++part_, done_ = 0) {
        const Part& part = parts_[part_];
        if (done_ == part.size) continue;
        const Bytes bytes = reader_.at(part.offset + done_);
        if (bytes.empty()) return fault_ = reader_.fault(), 0;
        const std::size_t size = static_cast<std::size_t>(
            std::min<std::uint64_t>(std::min(room, bytes.size()), part.size - done_));
        std::copy_n(bytes.data(), size, into);
        done_ += size;
        return size;
    }
    return 0;
}

}  // namespace acapella::input
