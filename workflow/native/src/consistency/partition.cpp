#include "consistency/partition.hpp"

#include <bit>

namespace acapella::consistency {
namespace {

struct Entry {
    Identity identity;
    std::uint32_t packet = 0;
    std::uint32_t zero = 0;
    Moment at;
};

constexpr int kMostBits = 10;

std::size_t part_of(const Identity& identity, int bits) {
    return bits == 0 ? 0 : identity.high >> (64 - bits);
}

// So many parts that one of them, with its table, takes a quarter of the memory.
int bits_for(std::uint64_t packets, std::uint64_t memory_bytes) {
    constexpr std::uint64_t kBytesAPacket = 80;
    const std::uint64_t share = std::max<std::uint64_t>(memory_bytes / 4, 1);
    const std::uint64_t parts = packets * kBytesAPacket / share + 1;
    return std::min(kMostBits, static_cast<int>(std::bit_width(parts - 1)));
}

// A quarter of the memory for the buffers of all parts.
std::size_t buffer_bytes(int bits, std::uint64_t memory_bytes) {
    constexpr std::uint64_t kLeast = 4096;
    constexpr std::uint64_t kMost = std::uint64_t{256} << 10;
    return static_cast<std::size_t>(std::clamp((memory_bytes / 4) >> bits, kLeast, kMost));
}

}  // namespace

// One trial's entries by part. Each part is a list of pieces of one file.
class PartitionedMatch::Parts {
  public:
    Parts(const std::string& folder, int bits, std::size_t buffered)
        : file_(folder),
          bits_(bits),
          room_(std::max<std::size_t>(buffered / sizeof(Entry), 1)),
          parts_(std::size_t{1} << bits) {}

    void add(const Entry& entry) {
        Part& part = parts_[part_of(entry.identity, bits_)];
        part.waiting.push_back(entry);
        if (part.waiting.size() == room_) write(part);
    }

    void add_all(const Trial& trial) {
        std::vector<Identity> identities(Column<Identity>::kChunk);
        for_each_packet(trial, [&](std::uint64_t packet, const Moment& at) {
            const std::size_t in_chunk = packet % identities.size();
            if (in_chunk == 0) {
                const std::size_t some = std::min<std::size_t>(identities.size(), trial.size() - packet);
                trial.identities.read(packet, std::span(identities).first(some));
            }
            add({identities[in_chunk], static_cast<std::uint32_t>(packet), 0, at});
        });
        for (Part& part : parts_) write(part);
    }

    [[nodiscard]] std::vector<Entry> read(std::size_t number) const {
        const Part& part = parts_[number];
        std::vector<Entry> entries(part.size);
        std::size_t at = 0;
        for (const Piece& piece : part.pieces) {
            file_.read(piece.offset, std::as_writable_bytes(std::span(entries).subspan(at, piece.size)));
            at += piece.size;
        }
        return entries;
    }

  private:
    struct Piece {
        std::uint64_t offset;
        std::size_t size;  // entries
    };
    struct Part {
        std::vector<Entry> waiting;
        std::vector<Piece> pieces;
        std::size_t size = 0;
    };

    void write(Part& part) {
        if (part.waiting.empty()) return;
        part.pieces.push_back({file_.append(std::as_bytes(std::span(part.waiting))), part.waiting.size()});
        part.size += part.waiting.size();
        part.waiting.clear();
    }

    SpoolFile file_;
    int bits_;
    std::size_t room_;
    std::vector<Part> parts_;
};

PartitionedMatch::~PartitionedMatch() = default;

PartitionedMatch::PartitionedMatch(const Trial& a, const Trial& b, std::uint64_t memory_bytes,
                                   const std::string& folder)
    : b_(b),
      folder_(folder),
      bits_(bits_for(a.size() + b.size(), memory_bytes)),
      common_(a.size()),
      answers_(folder),
      buffered_(buffer_bytes(bits_, memory_bytes)) {
    Parts parts_a(folder, bits_, buffered_);
    Parts parts_b(folder, bits_, buffered_);
    parts_a.add_all(a);
    parts_b.add_all(b);
    for (std::size_t part = 0; part < std::size_t{1} << bits_; ++part) match_part(parts_a, parts_b, part);
    answers_at_.push_back(answers_.size());
    common_.count();
}

void PartitionedMatch::match_part(const Parts& parts_a, const Parts& parts_b, std::size_t part) {
    const std::vector<Entry> of_a = parts_a.read(part);
    std::vector<Identity> identities_b;
    for (const Entry& entry : parts_b.read(part)) identities_b.push_back(entry.identity);
    std::vector<Identity> identities_a(of_a.size());
    std::transform(of_a.begin(), of_a.end(), identities_a.begin(),
                   [](const Entry& entry) { return entry.identity; });
    std::vector<std::uint32_t> matches(identities_b.size());
    const Ambiguous here = match(identities_a, identities_b, matches);
    ambiguous_.a += here.a;
    ambiguous_.b += here.b;
    std::vector<Answer> answers(matches.size());
    for (std::size_t i = 0; i < matches.size(); ++i) {
        if (matches[i] == kUnmatched) continue;
        const Entry& entry = of_a[matches[i]];
        answers[i] = {entry.packet, 0, entry.at};
        common_.put(entry.packet);
    }
    answers_at_.push_back(answers_.append(std::as_bytes(std::span(answers))));
}

void PartitionedMatch::for_each_of_b(const std::function<void(const Answer&, const Moment&)>& visit) const {
    struct Stream {
        std::uint64_t next;
        std::uint64_t end;
        std::vector<Answer> buffer;
        std::size_t at = 0;
    };
    const std::size_t room = std::max<std::size_t>(buffered_ / sizeof(Answer), 1);
    std::vector<Stream> streams;
    for (std::size_t i = 0; i + 1 < answers_at_.size(); ++i)
        streams.push_back({answers_at_[i], answers_at_[i + 1], {}, 0});
    std::vector<Identity> identities(Column<Identity>::kChunk);
    for_each_packet(b_, [&](std::uint64_t packet, const Moment& at) {
        const std::size_t in_chunk = packet % identities.size();
        if (in_chunk == 0) {
            const std::size_t some = std::min<std::size_t>(identities.size(), b_.size() - packet);
            b_.identities.read(packet, std::span(identities).first(some));
        }
        Stream& stream = streams[part_of(identities[in_chunk], bits_)];
        if (stream.at == stream.buffer.size()) {
            stream.buffer.resize(std::min<std::size_t>(room, (stream.end - stream.next) / sizeof(Answer)));
            answers_.read(stream.next, std::as_writable_bytes(std::span(stream.buffer)));
            stream.next += stream.buffer.size() * sizeof(Answer);
            stream.at = 0;
        }
        visit(stream.buffer[stream.at++], at);
    });
}

}  // namespace acapella::consistency
