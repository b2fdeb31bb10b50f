// Finds parts of an original capture that remain in the anonymized capture. It reads both files again; the
// list of addresses is its only input from the anonymization.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "anonymize/leaks/leak_fields.hpp"
#include "anonymize/pseudonyms/address_map.hpp"
#include "dissect/trace.hpp"
#include "frame/dissection.hpp"
#include "frame/record.hpp"
#include "input/byte_source.hpp"

namespace acapella {

class Vendors;

namespace anonymize {

inline constexpr std::size_t kRunBytes = 16;  // length of the byte runs that are compared

// The replaced addresses of one kind, and their pseudonyms.
template <typename Address>
class AddressSet {
  public:
    void add(const std::vector<Pair<Address>>& pairs) {
        for (const Pair<Address>& pair : pairs) {
            originals_.push_back(pair[0]);
            pseudonyms_.push_back(pair[1]);
        }
        sort();
    }
    // Adds addresses without a known pseudonym.
    void add_originals(const std::vector<Address>& originals) {
        originals_.insert(originals_.end(), originals.begin(), originals.end());
        sort();
    }
    void sort() {
        for (auto* addresses : {&originals_, &pseudonyms_}) {
            std::sort(addresses->begin(), addresses->end());
            addresses->erase(std::unique(addresses->begin(), addresses->end()), addresses->end());
        }
    }
    [[nodiscard]] bool is_pseudonym(const Address& address) const {
        return std::binary_search(pseudonyms_.begin(), pseudonyms_.end(), address);
    }
    // Returns false for an address that is also the pseudonym of another one, because it may occur in a
    // release.
    [[nodiscard]] bool is_forbidden(const Address& address) const {
        return std::binary_search(originals_.begin(), originals_.end(), address) && !is_pseudonym(address);
    }

  private:
    std::vector<Address> originals_;
    std::vector<Address> pseudonyms_;
};

struct KnownAddresses {
    AddressSet<Ipv4> ipv4;
    AddressSet<Ipv6> ipv6;
    AddressSet<Mac> macs;

    [[nodiscard]] const AddressSet<Ipv4>& of(const Ipv4&) const { return ipv4; }
    [[nodiscard]] const AddressSet<Ipv6>& of(const Ipv6&) const { return ipv6; }
    [[nodiscard]] const AddressSet<Mac>& of(const Mac&) const { return macs; }
};

// Runs of kRunBytes bytes from a list of texts: all runs of each text, or only its first run.
class Windows {
  public:
    Windows() = default;
    Windows(const std::vector<std::string_view>& texts, bool all_runs);
    // Adds the kRunBytes bytes at `at`. Does nothing if kMax runs are stored already.
    void add(const char* at);
    [[nodiscard]] bool empty() const { return windows_.empty(); }
    // Returns the offset of the first stored run in `bytes`.
    [[nodiscard]] std::optional<std::size_t> find(Bytes bytes) const;

  private:
    static constexpr unsigned kBits = 20;
    static constexpr std::size_t kMax = std::size_t{1} << 20;  // 100 MB
    [[nodiscard]] static std::size_t bit(const char* at);

    std::vector<bool> bits_ = std::vector<bool>(std::size_t{1} << kBits);
    std::unordered_set<std::string> windows_;
};

struct Leak {
    std::uint64_t frame = 0;
    // in the anonymized frame; for payload of a text and for find_windows(), in the original frame
    std::size_t offset = 0;
    std::string what;
};

class LeakFinder {
  public:
    // `vendors` may be null; all arguments must outlive this object.
    LeakFinder(const KnownAddresses& known, const Windows& texts, const Vendors* vendors)
        : known_(known), texts_(texts), vendors_(vendors) {}

    // Searches one frame. Adds runs to `unexplained` that come neither from the same offset of the original
    // nor from pseudonyms.
    [[nodiscard]] std::optional<Leak> find(const Record& original, const Record& released,
                                           Windows& unexplained);

  private:
    [[nodiscard]] std::optional<Leak> find_addresses(const Record& original, const Record& released);
    [[nodiscard]] std::optional<Leak> find_runs(Bytes original, const Record& released, Windows& unexplained);
    void read_fields(const Record& record);
    void collect_unexplained(Bytes original, Bytes released);

    const KnownAddresses& known_;
    const Windows& texts_;
    const Vendors* vendors_;
    Dissection dissection_;
    Trace trace_;
    HeaderFields fields_;                   // of the frame read last
    std::vector<bool> header_;              // by byte of the released frame: true in a header
    std::vector<bool> pseudonym_;           // by byte of the released frame: true in a pseudonym
    std::vector<std::size_t> run_offsets_;  // of unexplained runs
};

// Returns the first leak in a capture. The removed payload is searched for `texts`, which are runs of other
// files of the release. `limits` apply to the original. Throws InputError if a file is not a capture,
// AnonymizeError if the captures do not have the same frames.
std::optional<Leak> find_leak(const std::string& original, const std::string& released,
                              const KnownAddresses& known, const Windows& texts, const Vendors* vendors,
                              Windows& unexplained, const std::function<void()>& progress,
                              const input::DecompressionLimits& limits = {});

// Returns the first frame of a capture that contains one of these runs. Throws InputError.
std::optional<Leak> find_windows(const std::string& original, const Windows& windows,
                                 const std::function<void()>& progress,
                                 const input::DecompressionLimits& limits = {});

}  // namespace anonymize
}  // namespace acapella
