#include "kappa/partition.hpp"

#include <algorithm>
#include <bit>

namespace acapella::kappa {
namespace {

struct Entry {
    Identity identity;
    std::uint32_t packet = 0;
    std::uint32_t zero = 0;
    PacketTime at;
};

constexpr int kMaxBits = 10;
constexpr int kSubdivisionBits = 4;  // of a part that is too large
constexpr int kIdentityBits = 128;
constexpr std::uint64_t kMinPartBytes = std::uint64_t{64} << 10;
// Memory per packet during the matching of a part: entries, identities, table, chains, matches, results.
constexpr std::uint64_t kPartitionedPacketBytes = 128;

std::size_t part_of(const Identity& identity, int first_bit, int bits) {
    if (bits == 0) return 0;
    const Sum128 value = Sum128{identity.high} << 64 | identity.low;
    const auto least = static_cast<std::size_t>(value >> (kIdentityBits - first_bit - bits));
    return least & ((std::size_t{1} << bits) - 1);
}

// A part and its table use at most a quarter of the memory.
std::uint64_t max_part_bytes(std::uint64_t memory_bytes) { return std::max(memory_bytes / 4, kMinPartBytes); }

int bits_for(std::uint64_t packets, std::uint64_t memory_bytes) {
    const std::uint64_t parts = packets * kPartitionedPacketBytes / max_part_bytes(memory_bytes) + 1;
    return std::min(kMaxBits, static_cast<int>(std::bit_width(parts - 1)));
}

// The buffers of all parts use a quarter of the memory.
std::size_t buffer_bytes(int bits, std::uint64_t memory_bytes) {
    constexpr std::uint64_t kMin = 4096;
    constexpr std::uint64_t kMax = std::uint64_t{256} << 10;
    return static_cast<std::size_t>(std::clamp((memory_bytes / 4) >> bits, kMin, kMax));
}

}  // namespace

// The entries of one trial by part. Each part is a list of pieces of one file.
class PartitionedMatch::Parts {
  public:
    Parts(const std::string& directory, int first_bit, int bits, std::size_t buffered)
        : file_(directory),
          first_bit_(first_bit),
          bits_(bits),
          room_(std::max<std::size_t>(buffered / sizeof(Entry), 1)),
          parts_(std::size_t{1} << bits) {}

    void add(const Entry& entry) {
        Part& part = parts_[part_of(entry.identity, first_bit_, bits_)];
        if (part.size++ == 0) part.first = entry.identity;
        part.single_identity &= entry.identity == part.first;
        part.waiting.push_back(entry);
        if (part.waiting.size() == room_) write(part);
    }

    void add_all(const Trial& trial) {
        std::vector<Identity> identities(SpillColumn<Identity>::kChunk);
        for_each_packet(trial, [&](std::uint64_t packet, const PacketTime& at) {
            const std::size_t in_chunk = packet % identities.size();
            if (in_chunk == 0) {
                const std::size_t count = std::min<std::size_t>(identities.size(), trial.size() - packet);
                trial.identities.read(packet, std::span(identities).first(count));
            }
            add({identities[in_chunk], static_cast<std::uint32_t>(packet), 0, at});
        });
        end();
    }

    void add_part(const Parts& source, std::size_t part) {
        source.for_each(part, [this](const Entry& entry) { add(entry); });
        end();
    }

    [[nodiscard]] int next_bit() const { return first_bit_ + bits_; }
    [[nodiscard]] std::size_t size(std::size_t part) const { return parts_[part].size; }
    // Returns true if all entries of a part have the same identity (that of first()), or if it has no
    // entries.
    [[nodiscard]] bool has_single_identity(std::size_t part) const { return parts_[part].single_identity; }
    [[nodiscard]] const Identity& first(std::size_t part) const { return parts_[part].first; }

    // Calls visit(Entry) for a part's entries in order.
    template <typename Visit>
    void for_each(std::size_t part, const Visit& visit) const {
        std::vector<Entry> entries;
        for (const Piece& piece : parts_[part].pieces) {
            entries.resize(piece.size);
            file_.read(piece.offset, std::as_writable_bytes(std::span(entries)));
            for (const Entry& entry : entries) visit(entry);
        }
    }

  private:
    struct Piece {
        std::uint64_t offset;
        std::size_t size;  // number of entries
    };
    struct Part {
        std::vector<Entry> waiting;
        std::vector<Piece> pieces;
        std::size_t size = 0;
        Identity first;
        bool single_identity = true;
    };

    void write(Part& part) {
        if (part.waiting.empty()) return;
        part.pieces.push_back({file_.append(std::as_bytes(std::span(part.waiting))), part.waiting.size()});
        part.waiting.clear();
    }
    void end() {
        for (Part& part : parts_) {
            write(part);
            std::vector<Entry>().swap(part.waiting);
        }
    }

    SpoolFile file_;
    int first_bit_;
    int bits_;
    std::size_t room_;
    std::vector<Part> parts_;
};

PartitionedMatch::~PartitionedMatch() = default;

PartitionedMatch::PartitionedMatch(const Trial& a, const Trial& b, std::uint64_t memory_bytes,
                                   const std::string& directory)
    : b_(b),
      directory_(directory),
      part_bytes_(max_part_bytes(memory_bytes)),
      common_(a.size()),
      results_(directory),
      nodes_(1) {
    const int bits = bits_for(a.size() + b.size(), memory_bytes);
    buffered_ = buffer_bytes(bits, memory_bytes);
    add_children(0, 0, bits);
    Parts parts_a(directory, 0, bits, buffered_);
    Parts parts_b(directory, 0, bits, buffered_);
    parts_a.add_all(a);
    parts_b.add_all(b);
    match_parts(parts_a, parts_b, 0);
    common_.count();
}

void PartitionedMatch::add_children(std::size_t node, int first_bit, int bits) {
    const std::size_t children = nodes_.size();
    nodes_.resize(children + (std::size_t{1} << bits));
    nodes_[node].first_bit = first_bit;
    nodes_[node].bits = bits;
    nodes_[node].children = children;
}

void PartitionedMatch::match_parts(const Parts& parts_a, const Parts& parts_b, std::size_t node) {
    const std::size_t children = nodes_[node].children;
    for (std::size_t part = 0; part < std::size_t{1} << nodes_[node].bits; ++part)
        match_part(parts_a, parts_b, part, children + part);
}

void PartitionedMatch::match_part(const Parts& parts_a, const Parts& parts_b, std::size_t part,
                                  std::size_t node) {
    const bool fits = (parts_a.size(part) + parts_b.size(part)) * kPartitionedPacketBytes <= part_bytes_;
    const bool equal = parts_a.has_single_identity(part) && parts_b.has_single_identity(part);
    if (!fits && !equal) {
        divide(parts_a, parts_b, part, node);
        return;
    }
    nodes_[node].results_begin = results_.size();
    if (fits) {
        match_in_memory(parts_a, parts_b, part);
    } else {
        match_equal(parts_a, parts_b, part);
    }
    nodes_[node].results_end = results_.size();
}

// The recursion ends, because all entries of a part have the same identity after its last bit.
void PartitionedMatch::divide(const Parts& parts_a, const Parts& parts_b, std::size_t part,
                              std::size_t node) {
    const int first_bit = parts_a.next_bit();
    const int bits = std::min(kSubdivisionBits, kIdentityBits - first_bit);
    Parts divided_a(directory_, first_bit, bits, buffered_);
    Parts divided_b(directory_, first_bit, bits, buffered_);
    divided_a.add_part(parts_a, part);
    divided_b.add_part(parts_b, part);
    add_children(node, first_bit, bits);
    match_parts(divided_a, divided_b, node);
}

void PartitionedMatch::match_in_memory(const Parts& parts_a, const Parts& parts_b, std::size_t part) {
    std::vector<Entry> of_a;
    std::vector<Identity> identities_a;
    std::vector<Identity> identities_b;
    of_a.reserve(parts_a.size(part));
    identities_a.reserve(parts_a.size(part));
    identities_b.reserve(parts_b.size(part));
    parts_a.for_each(part, [&](const Entry& entry) {
        of_a.push_back(entry);
        identities_a.push_back(entry.identity);
    });
    parts_b.for_each(part, [&](const Entry& entry) { identities_b.push_back(entry.identity); });
    std::vector<std::uint32_t> matches(identities_b.size());
    const Ambiguous ambiguous = match(identities_a, identities_b, matches);
    ambiguous_.a += ambiguous.a;
    ambiguous_.b += ambiguous.b;
    std::vector<Match> results(matches.size());
    for (std::size_t i = 0; i < matches.size(); ++i) {
        if (matches[i] == kUnmatched) continue;
        const Entry& entry = of_a[matches[i]];
        results[i] = {entry.packet, 0, entry.at};
        common_.put(entry.packet);
    }
    results_.append(std::as_bytes(std::span(results)));
}

// Matches a part in which each side has a single identity, regardless of its size: if both are the same, the
// i-th packet of A matches the i-th one of B.
void PartitionedMatch::match_equal(const Parts& parts_a, const Parts& parts_b, std::size_t part) {
    const std::size_t size_a = parts_a.size(part);
    const std::size_t size_b = parts_b.size(part);
    ambiguous_.a += size_a > 1 ? size_a : 0;
    ambiguous_.b += size_b > 1 ? size_b : 0;
    const std::size_t room = std::max<std::size_t>(buffered_ / sizeof(Match), 1);
    std::size_t matched = 0;
    std::vector<Match> results;
    const auto add_match = [&](const Match& match) {
        results.push_back(match);
        if (++matched != size_b && results.size() < room) return;
        results_.append(std::as_bytes(std::span(results)));
        results.clear();
    };
    if (size_a > 0 && size_b > 0 && parts_a.first(part) == parts_b.first(part)) {
        parts_a.for_each(part, [&](const Entry& entry) {
            if (matched == size_b) return;
            common_.put(entry.packet);
            add_match({entry.packet, 0, entry.at});
        });
    }
    while (matched < size_b) add_match({});
}

std::size_t PartitionedMatch::leaf_of(const Identity& identity) const {
    std::size_t node = 0;
    do {
        node = nodes_[node].children + part_of(identity, nodes_[node].first_bit, nodes_[node].bits);
    } while (nodes_[node].children != 0);
    return node;
}

void PartitionedMatch::for_each_of_b(
    const std::function<void(const Match&, const PacketTime&)>& visit) const {
    struct Stream {
        std::uint64_t next;
        std::uint64_t end;
        std::vector<Match> buffer;
        std::size_t at = 0;
    };
    const std::size_t room = std::max<std::size_t>(buffered_ / sizeof(Match), 1);
    std::vector<Stream> streams;
    for (const Node& node : nodes_) streams.push_back({node.results_begin, node.results_end, {}, 0});
    std::vector<Identity> identities(SpillColumn<Identity>::kChunk);
    for_each_packet(b_, [&](std::uint64_t packet, const PacketTime& at) {
        const std::size_t in_chunk = packet % identities.size();
        if (in_chunk == 0) {
            const std::size_t count = std::min<std::size_t>(identities.size(), b_.size() - packet);
            b_.identities.read(packet, std::span(identities).first(count));
        }
        Stream& stream = streams[leaf_of(identities[in_chunk])];
        if (stream.at == stream.buffer.size()) {
            stream.buffer.resize(std::min<std::size_t>(room, (stream.end - stream.next) / sizeof(Match)));
            results_.read(stream.next, std::as_writable_bytes(std::span(stream.buffer)));
            stream.next += stream.buffer.size() * sizeof(Match);
            stream.at = 0;
        }
        visit(stream.buffer[stream.at++], at);
    });
}

}  // namespace acapella::kappa
